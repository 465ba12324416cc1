"""Calibration error with bins that hold equally many rows, and its debiased relative."""

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.core.checks import MOST_BINS, check_count
from wildcal._old.metrics.inputs import top_label, undefined


def _upper_edges(confidence: FloatArray, n_bins: int) -> FloatArray:
    """Return ascending upper edges of bins (lo, hi] with about equally many rows each."""
    ranked = np.sort(confidence)
    n = len(ranked)
    # The first n % n_bins parts have one row more; edges lie halfway between two parts.
    sizes = np.full(min(n_bins, n), n // min(n_bins, n))
    sizes[: n % len(sizes)] += 1
    cut = np.cumsum(sizes)[:-1]
    return np.unique(np.append((ranked[cut - 1] + ranked[cut]) / 2, 1.0))


def _table(correct: BoolArray, confidence: FloatArray, n_bins: int) -> FloatArray:
    """Return count, sum of confidence and number correct (3, bins) of the equal-mass bins."""
    edges = _upper_edges(confidence, n_bins)
    index = np.searchsorted(edges, confidence, side="left")
    weights = (np.ones(len(index)), confidence, correct)
    return np.stack([np.bincount(index, weight, len(edges)) for weight in weights])


def equal_mass_ece(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    n_bins: int = 15,
) -> float:
    """Return the expected calibration error over bins of (nearly) equal count.

    The sum is that of `ece`; the bins follow the sorted confidences. Edges lie halfway between
    neighboring parts of the sorted values, and equal values stay together. Parameters as in `ece`.
    NaN, with a warning, if there are no rows.

    References
    ----------
    Kumar, Liang, Ma (2019), "Verified uncertainty calibration".

    Examples
    --------
    >>> correct = np.array([True, False, True, True])
    >>> round(equal_mass_ece(correct, np.array([0.5, 0.6, 0.8, 0.9]), n_bins=2), 12)
    0.1
    """
    correct, confidence = top_label(y, proba, pred)
    if len(confidence) == 0:
        return undefined("equal_mass_ece")
    _, trust, hits = _table(correct, confidence, check_count("n_bins", n_bins, most=MOST_BINS))
    return float(np.abs(trust - hits).sum() / len(confidence))


def l2_ce_debiased(
    y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None, n_bins: int = 15
) -> float:
    """Return the root-mean-square calibration error with the sampling noise subtracted.

    sqrt(max(0, Σ_b (n_b / n) · [(a_b - c_b)² - a_b (1 - a_b) / (n_b - 1)])), with accuracy a_b and
    mean confidence c_b in equal-mass bins; bins of one row add nothing. Zero means
    that no error stands out from the noise. Parameters and special cases as in `equal_mass_ece`.

    References
    ----------
    Kumar, Liang, Ma (2019), "Verified uncertainty calibration".

    Examples
    --------
    >>> correct = np.array([True, False] * 50)
    >>> l2_ce_debiased(correct, np.full(100, 0.5))
    0.0
    """
    correct, confidence = top_label(y, proba, pred)
    if len(confidence) == 0:
        return undefined("l2_ce_debiased")
    table = _table(correct, confidence, check_count("n_bins", n_bins, most=MOST_BINS))
    count, trust, hits = table[:, table[0] > 1]
    right = hits / count
    squares = (right - trust / count) ** 2 - right * (1 - right) / (count - 1)
    return float(np.sqrt(max(0.0, np.sum(count * squares) / len(confidence))))
