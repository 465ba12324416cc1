"""The bins of all methods on one split at once, so that short splits share the calls of NumPy."""

import numpy as np

from wildcal.core.arrays import FloatArray
from wildcal.core.checks import check_confidence
from wildcal.evaluation.protocol.shared import SplitRows
from wildcal.metrics import TopLabelAccumulator
from wildcal.metrics.binning import bin_index
from wildcal.metrics.noise import expected_gaps


def binned(
    rows: SplitRows, n_bins: int, *, floors: bool
) -> tuple[list[TopLabelAccumulator], FloatArray]:
    """Return each method's sums per bin, and its noise floor (NaN unless `floors`).

    The numbers are those of `TopLabelAccumulator.update` and of `noise_floor`.
    """
    n_methods, n = rows.confidence.shape
    p = check_confidence(rows.confidence.reshape(-1))
    # Bin b of method m has the number m * n_bins + b.
    index = bin_index(p, n_bins) + np.repeat(np.arange(n_methods) * n_bins, n)
    correct = np.tile(rows.correct, n_methods)
    size = n_methods * n_bins
    both = np.bincount(2 * index + correct, minlength=2 * size).reshape(n_methods, n_bins, 2)
    confidence_sums = np.bincount(index, p, size).reshape(n_methods, n_bins)
    gaps = (p - correct).reshape(n_methods, n)
    tops = []
    for m, gap in enumerate(gaps):
        top = TopLabelAccumulator(n_bins)
        top.count, top.correct_sum = both[m].sum(axis=1), both[m, :, 1]
        top.confidence_sum = confidence_sums[m]
        top.squared_error = np.asarray(gap @ gap)
        tops.append(top)
    if not floors:
        return tops, np.full(n_methods, np.nan)
    return tops, expected_gaps(p, index, size).reshape(n_methods, n_bins).sum(axis=1) / n
