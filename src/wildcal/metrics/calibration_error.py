"""Calibration errors, and the noise floor of a calibrated model on a finite sample."""

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, IntArray
from wildcal.core.validation import check_choice
from wildcal.metrics._scores import Scores, bin_index, bin_sums, mean, measure, per_replicate, total

# Above this variance of the number of right samples in a bin an expansion is accurate to 1e-4.
_EXPAND_ABOVE: Final = 10.0
# Below it the number is within 32 of its mean, except for a probability of 1e-12, so its
# distribution modulo 64 determines it.
_RESIDUES: Final = 64
# Samples whose characteristic functions are computed together.
_BLOCK: Final = 1 << 15
# Simulated errors of a calibrated model.
_N_DRAWS: Final = 2000
# The grid of the published estimator: [0, 1], and space for the mirror images.
_GRID_SIZE: Final = 1 << 14
_GRID: Final = np.linspace(-0.6, 1.6, _GRID_SIZE)
_STEP: Final = float(_GRID[1] - _GRID[0])
_INSIDE: Final = slice(int(np.argmax(_GRID > 0)), int(np.argmax(_GRID >= 1)))
# A kernel below two grid steps falls between the points; the published code then takes 1e-3.
_NARROWEST, _FALLBACK = 2 * _STEP, 1e-3
_NO_DENSITY: Final = 1e-6


def ece(
    y: Any,
    proba: Any,
    *,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    sample_weight: Any = None,
) -> float:
    r"""Return the expected calibration error, a fraction in [0, 1].

    .. math:: ECE = \sum_b \frac{n_b}{n} |confidence_b - accuracy_b|

    with the mean confidence and the accuracy of each bin (lo, hi]; confidence 0 belongs to the
    first bin. A perfectly calibrated model has an ECE of about `noise_floor`.

    Parameters
    ----------
    y, proba
        Labels (n,) and probabilities (n, K), or booleans (n,), whether the prediction was right,
        and confidences (n,). Samples with y = -1 (OOD) count as wrong.
    n_bins
        Number of bins.
    strategy
        "uniform": bins of equal width. "quantile": bins with equally many samples (adaptive ECE),
        with edges halfway between neighbors; equal confidences stay in one bin.
    sample_weight
        Counts (n,): a weight of 2 is equivalent to repeating the sample.

    References
    ----------
    Guo et al. (2017), "On calibration of modern neural networks". Nixon et al. (2019), "Measuring
    calibration in deep learning", for the adaptive bins.

    Examples
    --------
    >>> correct = np.array([True, False, True, True])
    >>> round(ece(correct, np.array([0.55, 0.65, 0.95, 0.95]), n_bins=10), 12)
    0.3
    """
    check_choice("strategy", strategy, ("uniform", "quantile"))
    compute = compute_ece if strategy == "uniform" else compute_adaptive_ece
    return measure(compute, y, proba, sample_weight, n_bins=n_bins)


def excess_ece(y: Any, proba: Any, *, n_bins: int = 15, sample_weight: Any = None) -> float:
    """Return `ece` minus its `noise_floor`: about 0 for a calibrated model at any sample size.

    It may be negative. Parameters as in `ece`.

    Examples
    --------
    >>> round(excess_ece(np.array([True, False]), np.array([0.5, 0.5])), 12)
    -0.25
    """
    return measure(compute_excess_ece, y, proba, sample_weight, n_bins=n_bins)


def mce(y: Any, proba: Any, *, n_bins: int = 15, sample_weight: Any = None) -> float:
    """Return the maximum calibration error: the largest gap of a bin of `ece`.

    One sample alone in a bin can decide the value. Parameters as in `ece`.

    References
    ----------
    Naeini et al. (2015), "Obtaining well calibrated probabilities using Bayesian binning".

    Examples
    --------
    >>> correct = np.array([True, False, True, True])
    >>> mce(correct, np.array([0.55, 0.65, 0.95, 0.95]), n_bins=10)
    0.65
    """
    return measure(compute_mce, y, proba, sample_weight, n_bins=n_bins)


def ks_error(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return the Kolmogorov-Smirnov calibration error, which needs no bins.

    It is the largest difference between cumulated confidence and cumulated accuracy, samples
    sorted by confidence, divided by n. Parameters as in `ece`.

    References
    ----------
    Gupta et al. (2021), "Calibration of neural networks using splines".

    Examples
    --------
    >>> correct, confidence = np.array([True, False, False]), np.array([0.75, 0.75, 0.5])
    >>> round(ks_error(correct, confidence), 12)
    0.333333333333
    """
    return measure(compute_ks_error, y, proba, sample_weight)


def debiased_l2_ce(y: Any, proba: Any, *, n_bins: int = 15, sample_weight: Any = None) -> float:
    r"""Return the root mean square calibration error with the sampling noise subtracted.

    .. math:: \sqrt{\max(0, \sum_b \frac{n_b}{n} [(a_b - c_b)^2 - a_b (1 - a_b) / (n_b - 1)])}

    with accuracy a and mean confidence c in bins with equally many samples; bins of one sample
    add nothing. Parameters as in `ece`.

    References
    ----------
    Kumar, Liang, Ma (2019), "Verified uncertainty calibration".

    Examples
    --------
    >>> debiased_l2_ce(np.array([True, False] * 50), np.full(100, 0.5))
    0.0
    """
    return measure(compute_debiased_l2_ce, y, proba, sample_weight, n_bins=n_bins)


def classwise_ece(y: Any, proba: Any, *, n_bins: int = 15, sample_weight: Any = None) -> float:
    """Return the class-wise calibration error (static calibration error, SCE).

    The mean over the K classes of the `ece` of the probability of class k against y = k. It falls
    with the number of classes, so compare it at equal K. Samples with y = -1 are left out.

    References
    ----------
    Nixon et al. (2019), "Measuring calibration in deep learning".

    Examples
    --------
    >>> classwise_ece([0, 1], np.array([[0.75, 0.25], [0.75, 0.25]]))
    0.25
    """
    return measure(compute_classwise_ece, y, proba, sample_weight, ood=False, n_bins=n_bins)


def kde_ece(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    r"""Return the calibration error by kernel density estimates.

    .. math:: \int |x - accuracy(x)| f(x) dx, \quad accuracy(x) = \min(1, accuracy g(x) / f(x))

    f is the density of all confidences, g that of the right ones. Both have a triweight kernel of
    standard deviation std(confidence of right samples) (2 n)^(-1/5), mirrored at 0 and 1. The
    published code measures class 1 of two; here two classes are like any other number. Parameters
    as in `ece`.

    References
    ----------
    Zhang, Kailkhura, Han (2020), "Mix-n-Match: ensemble and compositional methods for uncertainty
    calibration in deep learning".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 20_000)
    >>> correct = rng.random(20_000) < confidence - 0.1
    >>> round(kde_ece(correct, confidence), 2)
    0.1
    """
    return measure(compute_kde_ece, y, proba, sample_weight)


def noise_floor(confidence: Any, *, n_bins: int = 15, sample_weight: Any = None) -> float:
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


def compute_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `ece`."""
    index = bin_index(scores.confidence, n_bins)
    return np.abs(bin_sums(scores.gap, index, n_bins, weights)).sum(axis=0) / total(weights)


def compute_excess_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `excess_ece`."""
    error = compute_ece(scores, weights, n_bins=n_bins)
    return error - compute_noise_floor(scores, weights, n_bins=n_bins)


def compute_mce(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `mce`."""
    index = bin_index(scores.confidence, n_bins)
    count = bin_sums(np.ones(len(scores)), index, n_bins, weights)
    sums = np.abs(bin_sums(scores.gap, index, n_bins, weights))
    return (sums / np.where(count > 0, count, np.inf)).max(axis=0)


def compute_ks_error(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `ks_error`."""
    order = scores.order
    gap = scores.gap[order]
    is_last = np.append(np.diff(scores.confidence[order]) > 0, True)
    return per_replicate(
        lambda w: np.abs(np.cumsum(gap * w[order])[is_last]).max() / w.sum(), weights
    )


def compute_adaptive_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `ece` with ``strategy="quantile"``."""
    order = scores.order
    ranked, gap = scores.confidence[order], scores.gap[order]

    def value(w: FloatArray) -> Any:
        w = w[order]
        ends = _equal_mass_ends(ranked, w, n_bins)
        return np.abs(_sums_between(gap * w, ends)).sum() / w.sum()

    return per_replicate(value, weights)


def compute_debiased_l2_ce(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `debiased_l2_ce`."""
    order = scores.order
    ranked, correct = scores.confidence[order], scores.correct[order]

    def value(w: FloatArray) -> Any:
        w = w[order]
        ends = _equal_mass_ends(ranked, w, n_bins)
        sums = np.array([_sums_between(v, ends) for v in (w, ranked * w, correct * w)])
        count, confidence, hits = sums[:, sums[0] > 1]
        accuracy = hits / count
        noise = accuracy * (1 - accuracy) / (count - 1)
        squares = count * ((accuracy - confidence / count) ** 2 - noise)
        return np.sqrt(max(0.0, squares.sum() / w.sum()))

    return per_replicate(value, weights)


def compute_classwise_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `classwise_ece`."""
    assert scores.y is not None
    columns = weights.reshape(len(scores), -1)
    k = scores.n_classes
    sums = np.zeros((columns.shape[1], k * n_bins))
    start = 0
    for block in scores.blocks():
        part = slice(start, start + len(block))
        start += len(block)
        index = bin_index(block, n_bins)
        gap = np.minimum(block, 1.0)
        gap[np.arange(len(block)), scores.y[part]] -= 1
        # With many classes most probabilities are in the first bin: one product sums them.
        low = np.where(index == 0, gap, 0.0)
        sample, column = np.nonzero(index)
        place, gap = column * n_bins + index[sample, column], gap[sample, column]
        for row, w in zip(sums, columns[part].T, strict=True):
            row += np.bincount(place, gap * w[sample], k * n_bins)
            row[::n_bins] += w @ low
    values = np.abs(sums).sum(axis=1) / (total(columns) * k)
    return values if weights.ndim == 2 else values[0]


def _equal_mass_ends(ranked: FloatArray, w: FloatArray, n_bins: int) -> IntArray:
    """Return where bins of equal weight end, for sorted confidences."""
    cumulated = np.cumsum(w)
    total = round(float(cumulated[-1]))
    n_parts = max(1, min(n_bins, total))
    # The first parts have one sample more if n is not a multiple of n_bins.
    sizes = np.full(n_parts, total // n_parts)
    sizes[: total % n_parts] += 1
    cuts = np.cumsum(sizes)[:-1]
    last = np.searchsorted(cumulated, cuts, side="left")
    following = np.minimum(np.searchsorted(cumulated, cuts, side="right"), len(ranked) - 1)
    ends = np.searchsorted(ranked, (ranked[last] + ranked[following]) / 2, side="right")
    return np.append(ends, len(ranked))


def _sums_between(values: FloatArray, ends: IntArray) -> FloatArray:
    return np.diff(np.append(0.0, np.cumsum(values))[ends], prepend=0.0)


def compute_kde_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `kde_ece`. Replicates share the bandwidth of the samples."""
    confidence, correct = scores.confidence, scores.correct
    w = weights if weights.ndim == 1 else scores.weight
    hits = correct * w
    if not hits.any():
        return mean(confidence, weights)
    kernel = _kernel_transform(_bandwidth(confidence, hits, w.sum()))
    image = np.where(confidence < 0.5, -confidence, 2 - confidence)
    position = (np.concatenate([confidence, image]) - _GRID[0]) / _STEP
    left = position.astype(np.intp)
    # Linear binning: the weight of a sample is shared out to the two neighbors on the grid.
    points = np.concatenate([left, left + 1])
    share = np.concatenate([left + 1 - position, position - left])
    grid = _GRID[_INSIDE]

    def value(w: FloatArray) -> float:
        n, hits = w.sum(), correct * w
        if not hits.any():
            return float(confidence @ w / n)
        masses = [np.bincount(points, share * np.tile(v, 4), _GRID_SIZE) for v in (hits, w)]
        smooth = np.fft.irfft(np.fft.rfft(masses, 2 * _GRID_SIZE) * kernel)
        # The transform leaves a noise of about 1e-15 where there is nothing.
        right, both = np.maximum(smooth[:, _INSIDE], 0.0) / n
        accuracy = np.minimum(right / np.where(both > 0, both, np.inf), 1.0)
        is_dense = np.maximum(right * n / hits.sum(), both) > _NO_DENSITY
        gap = np.where(is_dense, np.abs(grid - accuracy) * both, 0.0)
        return float(np.trapezoid(gap, grid) / np.trapezoid(both, grid))

    return per_replicate(value, weights)


def _bandwidth(confidence: FloatArray, hits: FloatArray, n: float) -> float:
    average = confidence @ hits / hits.sum()
    variance = (confidence - average) ** 2 @ hits / hits.sum()
    h = float(np.sqrt(variance) * (2 * n) ** -0.2)
    return h if h >= _NARROWEST else _FALLBACK


def _kernel_transform(h: float) -> NDArray[np.complex128]:
    """Return the Fourier transform of the triweight kernel with standard deviation h."""
    offset = np.arange(_GRID_SIZE) * _STEP / (3 * h)
    kernel = 35 / 32 * np.clip(1 - offset**2, 0, None) ** 3 / (3 * h)
    # Twice the grid keeps the two ends apart; negative offsets are at the far end.
    return np.fft.rfft(np.concatenate([kernel, [0.0], kernel[:0:-1]]))


def compute_noise_floor(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `noise_floor`. Replicates share the value of the samples."""
    w = weights if weights.ndim == 1 else scores.weight
    gaps = _expected_gaps(scores.confidence, bin_index(scores.confidence, n_bins), n_bins, w)
    value = gaps.sum() / w.sum()
    return value if weights.ndim == 1 else np.full(weights.shape[1], value)


def noise_limit(scores: Scores, *, n_bins: int = 15, level: float = 0.95) -> float:
    """Return the ECE that a calibrated model exceeds with probability (1 - level) / 2."""
    index, p = bin_index(scores.confidence, n_bins), scores.confidence
    variance = np.bincount(index, scores.weight * p * (1 - p), n_bins)
    gaps = np.abs(np.random.default_rng(0).normal(size=(_N_DRAWS, n_bins)))
    errors = gaps @ np.sqrt(variance) / scores.weight.sum()
    return float(np.quantile(errors, (1 + level) / 2))


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
