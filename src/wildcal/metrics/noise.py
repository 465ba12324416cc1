"""The ECE that a perfectly calibrated model would show on the same confidences."""

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import FloatArray
from wildcal.core.checks import check_confidence, check_count
from wildcal.metrics.binning import bin_index
from wildcal.metrics.inputs import is_empty, top_label, undefined
from wildcal.metrics.top_label import TopLabelAccumulator

# Above this variance of the number of right rows in a bin the expansion below is good to 1e-4.
_EXPAND_ABOVE = 10.0
# Below it the number is within 32 of its mean but for a chance of 1e-12, so its distribution is
# known from 64 residues.
_RESIDUES = 64


def noise_floor(confidence: ArrayLike, *, n_bins: int = 15) -> float:
    """Return the expected ECE if every confidence were exactly right.

    With independent labels, row i being right with probability confidence_i, the floor is
    Σ_b E|X_b - μ_b| / n, where X_b counts the right rows in bin b and μ_b = Σ confidence_i. It is
    computed, not simulated: exactly in bins of small variance, and by an Edgeworth expansion with
    the correction for whole numbers, good to 1e-4 of the value, in the others. So there is no
    seed, and the cost is O(n). It falls like 1 / sqrt(n).

    Parameters
    ----------
    confidence
        Probabilities (n,) of the predicted classes.
    n_bins
        Number of equal-width bins (lo, hi], as in `ece`.

    Returns
    -------
    float
        NaN, with a warning, if there are no rows.

    References
    ----------
    Bröcker and Smith (2007), "Increasing the reliability of reliability diagrams", for the idea;
    Vaicenavicius et al. (2019), "Evaluating model calibration in classification".

    Examples
    --------
    >>> round(noise_floor([0.5, 0.5]), 12)  # 0, 1, 1 or 2 right: (1 + 0 + 0 + 1) / 4 off, of 2 rows
    0.25
    """
    n_bins = check_count("n_bins", n_bins)
    if is_empty(confidence):
        return undefined("noise_floor")
    p = check_confidence(confidence)
    index = bin_index(p, n_bins)
    spread = p * (1 - p)
    # The first four cumulants of X_b are sums over its rows.
    of_rows = (p, spread, spread * (1 - 2 * p), spread * (1 - 6 * spread))
    cumulants = np.array([np.bincount(index, row, n_bins) for row in of_rows], dtype=np.float64)
    variance = cumulants[1]
    wide = variance > _EXPAND_ABOVE
    total = _expanded(*cumulants[:, wide]).sum()
    for narrow in np.flatnonzero((variance > 0) & ~wide):
        total += _exact(p[index == narrow])
    return float(total / len(p))


def _expanded(
    mean: FloatArray, variance: FloatArray, third: FloatArray, fourth: FloatArray
) -> FloatArray:
    """Return E|X - mean| of a whole number X from its cumulants.

    The normal value is sqrt(2 variance / π). Skewness g and excess kurtosis k change it by the
    factor 1 + (g² - k) / 24, and the steps of X (Euler-Maclaurin at the kink, which lies at the
    fraction t between two whole numbers) by - (t² - t + 1/6) / (2 variance).
    """
    t = mean - np.floor(mean)
    shape = (third**2 / variance**3 - fourth / variance**2) / 24
    steps = (t**2 - t + 1 / 6) / (2 * variance)
    return np.asarray(np.sqrt(2 * variance / np.pi) * (1 + shape - steps))


def _exact(p: FloatArray) -> float:
    """Return E|X - Σ p| of the number X of successes in trials with chances p."""
    # The transform of the distribution of X modulo 64 is a product over the trials.
    turn = np.exp(-2j * np.pi * np.arange(_RESIDUES // 2 + 1) / _RESIDUES) - 1
    transform = np.ones(len(turn), dtype=np.complex128)
    for start in range(0, len(p), 512):  # a table of 512 trials stays in cache
        transform *= np.prod(1 + p[start : start + 512, None] * turn, axis=0)
    chance = np.fft.irfft(transform, _RESIDUES)
    # Of the numbers with the same residue, the one nearest to the mean.
    mean, residue = p.sum(), np.arange(_RESIDUES)
    number = residue + _RESIDUES * np.rint((mean - residue) / _RESIDUES)
    return float(chance @ np.abs(number - mean))


def excess_ece(
    y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None, n_bins: int = 15
) -> float:
    """Return `ece` minus its `noise_floor`: about 0 for a calibrated model of any sample size.

    Negative values are left as they are: the sample happened to look better than expected. Where
    the true error is large the floor hardly matters, and this subtracts too much of it.
    Parameters as in `ece`.

    Examples
    --------
    >>> round(excess_ece(np.array([True, False]), np.array([0.5, 0.5])), 12)
    -0.25
    """
    correct, confidence = top_label(y, proba, pred)
    if len(confidence) == 0:
        return undefined("excess_ece")
    plain = TopLabelAccumulator(n_bins).update(correct, confidence).ece()
    return plain - noise_floor(confidence, n_bins=n_bins)
