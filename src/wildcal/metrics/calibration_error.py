"""Calibration errors: binned, by equal mass, class-wise, Kolmogorov-Smirnov, debiased."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import FloatArray, IntArray
from wildcal.core.validation import check_choice
from wildcal.metrics._scores import (
    Scores,
    bin_index,
    bin_sums,
    measure,
    measure_in_distribution,
    per_replicate,
    total,
)
from wildcal.metrics.noise import compute_noise_floor


def ece(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    sample_weight: ArrayLike | None = None,
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


def excess_ece(
    y: ArrayLike, proba: ArrayLike, *, n_bins: int = 15, sample_weight: ArrayLike | None = None
) -> float:
    """Return `ece` minus its `noise_floor`: about 0 for a calibrated model at any sample size.

    It may be negative. Parameters as in `ece`.

    Examples
    --------
    >>> round(excess_ece(np.array([True, False]), np.array([0.5, 0.5])), 12)
    -0.25
    """
    return measure(compute_excess_ece, y, proba, sample_weight, n_bins=n_bins)


def mce(
    y: ArrayLike, proba: ArrayLike, *, n_bins: int = 15, sample_weight: ArrayLike | None = None
) -> float:
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


def ks_error(y: ArrayLike, proba: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
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


def debiased_l2_ce(
    y: ArrayLike, proba: ArrayLike, *, n_bins: int = 15, sample_weight: ArrayLike | None = None
) -> float:
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


def classwise_ece(
    y: ArrayLike, proba: ArrayLike, *, n_bins: int = 15, sample_weight: ArrayLike | None = None
) -> float:
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
    return measure_in_distribution(compute_classwise_ece, y, proba, sample_weight, n_bins=n_bins)


def compute_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `ece`."""
    index = scores.bins(n_bins)
    return np.abs(bin_sums(scores.gap, index, n_bins, weights)).sum(axis=0) / total(weights)


def compute_excess_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `excess_ece`."""
    error = compute_ece(scores, weights, n_bins=n_bins)
    return error - compute_noise_floor(scores, weights, n_bins=n_bins)


def compute_mce(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `mce`."""
    index = scores.bins(n_bins)
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
