"""The ECE that a perfectly calibrated model has on a finite sample."""

from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import FloatArray, IntArray
from wildcal.metrics._scores import Scores, measure

# Above this variance of the number of right samples in a bin an expansion is accurate to 1e-4.
_EXPAND_ABOVE: Final = 10.0
# Below it the number is within 32 of its mean, except for a probability of 1e-12, so its
# distribution modulo 64 determines it.
_RESIDUES: Final = 64
# Samples whose characteristic functions are computed together.
_BLOCK: Final = 1 << 15
# Simulated errors of a calibrated model.
_N_DRAWS: Final = 2000


def noise_floor(
    confidence: ArrayLike, *, n_bins: int = 15, sample_weight: ArrayLike | None = None
) -> float:
    r"""Return the expected `ece` if every confidence were exactly right.

    With independent labels, sample i being right with probability confidence_i, it is

    .. math:: \sum_b E|X_b - \mu_b| / n

    where X_b is the number of right samples in bin b and \mu_b the sum of their confidences. It is
    computed, not simulated, to a relative 1e-4: exactly in bins of small variance, by an Edgeworth
    expansion in the others. It falls like 1 / sqrt(n).

    References
    ----------
    Broecker and Smith (2007), "Increasing the reliability of reliability diagrams", for the idea.

    Examples
    --------
    >>> round(noise_floor([0.5, 0.5]), 12)  # 0, 1, 1 or 2 right: (1 + 0 + 0 + 1) / 4 off, of 2
    0.25
    """
    wrong = np.zeros(np.shape(confidence), np.bool_)
    return measure(compute_noise_floor, wrong, confidence, sample_weight, n_bins=n_bins)


def compute_noise_floor(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `noise_floor`. Replicates share the value of the samples."""
    w = weights if weights.ndim == 1 else scores.weight
    gaps = _expected_gaps(scores.confidence, scores.bins(n_bins), n_bins, w)
    value = gaps.sum() / w.sum()
    return value if weights.ndim == 1 else np.full(weights.shape[1], value)


def noise_limit(scores: Scores, *, n_bins: int = 15, level: float = 0.95) -> float:
    """Return the ECE that a calibrated model exceeds with probability (1 - level) / 2."""
    index, p = scores.bins(n_bins), scores.confidence
    variance = np.bincount(index, scores.weight * p * (1 - p), n_bins)
    errors = _absolute_normal(n_bins) @ np.sqrt(variance) / scores.weight.sum()
    return float(np.quantile(errors, (1 + level) / 2))


@lru_cache(maxsize=4)
def _absolute_normal(n_bins: int) -> FloatArray:
    return np.abs(np.random.default_rng(0).normal(size=(_N_DRAWS, n_bins)))


def _expected_gaps(p: FloatArray, index: IntArray, n_bins: int, w: FloatArray) -> FloatArray:
    """Return E|X - mean| of the number X of right samples in each bin."""
    v = p * (1 - p)
    columns = (p, v, v * (1 - 2 * p), v * (1 - 6 * v))
    cumulants = np.array([np.bincount(index, w * column, n_bins) for column in columns])
    wide = cumulants[1] > _EXPAND_ABOVE
    narrow = (cumulants[1] > 0) & ~wide
    gaps = np.zeros(n_bins)
    gaps[wide] = _expansion(*cumulants[:, wide])
    if narrow.any():
        chosen = np.flatnonzero(narrow[index] & (w > 0))
        gaps[narrow] = _exact(p[chosen], index[chosen], w[chosen], cumulants[0])[narrow]
    return gaps


def _expansion(
    mean: FloatArray, variance: FloatArray, third: FloatArray, fourth: FloatArray
) -> FloatArray:
    """Return E|X - mean| of a whole number X from its cumulants.

    The normal value is sqrt(2 variance / pi). Skewness g and excess kurtosis k change it by the
    factor 1 + (g^2 - k) / 24; that X is a whole number changes it by -(t^2 - t + 1/6) /
    (2 variance), where t is the fraction of the mean (Euler-Maclaurin).
    """
    t = mean - np.floor(mean)
    shape = (third**2 / variance**3 - fourth / variance**2) / 24
    steps = (t**2 - t + 1 / 6) / (2 * variance)
    return np.asarray(np.sqrt(2 * variance / np.pi) * (1 + shape - steps))


def _exact(p: FloatArray, index: IntArray, w: FloatArray, mean: FloatArray) -> FloatArray:
    """Return E|X - mean| of each bin from the distribution of X modulo 64.

    Its Fourier transform is the product of 1 + p_i (e^it - 1) over the samples of a bin, to the
    power of their weights.
    """
    n_bins = len(mean)
    turn = np.exp(-2j * np.pi * np.arange(_RESIDUES // 2 + 1) / _RESIDUES) - 1
    transform = np.ones((n_bins, len(turn)), dtype=np.complex128)
    order = np.argsort(index, kind="stable")
    p, index, w = p[order], index[order], w[order]
    for start in range(0, len(p), _BLOCK):
        part = slice(start, start + _BLOCK)
        factor = 1 + p[part, None] * turn
        if (w[part] != 1).any():
            factor = factor ** w[part, None]
        bins, starts = np.unique(index[part], return_index=True)
        transform[bins] *= np.multiply.reduceat(factor, starts, axis=0)
    chance = np.fft.irfft(transform, _RESIDUES)
    # Of the numbers with the same residue, the one nearest to the mean.
    residue = np.arange(_RESIDUES)
    number = residue + _RESIDUES * np.rint((mean[:, None] - residue) / _RESIDUES)
    return np.asarray((chance * np.abs(number - mean[:, None])).sum(axis=1))
