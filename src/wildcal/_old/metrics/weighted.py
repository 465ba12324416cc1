"""Metrics of rows that count several times, for many such counts at once.

`counts` has a row for each row of the data and a column for each replicate; every function returns
a number for each replicate, that of the metric on the rows repeated so often. Rows are sorted or
binned once for all replicates.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.core.one_thread import one_thread
from wildcal._old.metrics.binning import bin_index


@one_thread()
def weighted_means(columns: Sequence[FloatArray], counts: FloatArray) -> FloatArray:
    """Return the mean of each column of numbers, shape (columns, replicates)."""
    return np.asarray(np.stack(columns).astype(np.float64) @ counts / counts.sum(axis=0))


def place_sums(
    values: FloatArray, places: NDArray[np.intp], rows: NDArray[np.intp], n: int, counts: FloatArray
) -> FloatArray:
    """Return the sums of values, each of one row, by their place of n: (places, replicates)."""
    from scipy.sparse import csr_array  # slow to import, and resampling alone needs it

    return np.asarray(csr_array((values, (places, rows)), shape=(n, len(counts))) @ counts)


def bin_sums(values: FloatArray, index: NDArray[np.intp], n: int, counts: FloatArray) -> FloatArray:
    """Return the sums of values by their bin, shape (bins, replicates)."""
    return place_sums(values, index, np.arange(len(values)), n, counts)


def weighted_ece(
    correct: Sequence[BoolArray], confidence: Sequence[FloatArray], n_bins: int, counts: FloatArray
) -> FloatArray:
    """Return the ECE of several sets of as many rows, shape (sets, replicates).

    The gap of a bin is linear in the counts, so all sets are one product with a sparse matrix that
    has a row for each set and bin, and one entry in each column for each set.
    """
    n = len(counts)
    gaps = [p - right for right, p in zip(correct, confidence, strict=True)]
    places = [i * n_bins + bin_index(p, n_bins) for i, p in enumerate(confidence)]
    rows = np.tile(np.arange(n), len(gaps))
    size = len(gaps) * n_bins
    summed = place_sums(np.concatenate(gaps), np.concatenate(places), rows, size, counts)
    per_bin = np.abs(summed).reshape(len(gaps), n_bins, -1)
    return np.asarray(per_bin.sum(axis=1) / n)


def weighted_mce(
    correct: BoolArray, confidence: FloatArray, n_bins: int, counts: FloatArray
) -> FloatArray:
    """Return the largest gap of a bin that has rows."""
    index = bin_index(confidence, n_bins)
    gap = np.abs(bin_sums(confidence - correct, index, n_bins, counts))
    rows = bin_sums(np.ones(len(confidence)), index, n_bins, counts)
    return np.asarray((gap / np.where(rows > 0, rows, np.inf)).max(axis=0))


def weighted_ks(correct: BoolArray, confidence: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the largest gap between cumulated confidence and cumulated accuracy."""
    order = np.argsort(confidence)
    gap = np.cumsum((confidence - correct)[order, None] * counts[order], axis=0)
    last = np.append(np.diff(confidence[order]) > 0, True)
    return np.asarray(np.abs(gap[last]).max(axis=0) / counts.sum(axis=0))


def weighted_aurc(correct: BoolArray, confidence: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the area under the risk-coverage curve.

    A group of S rows of equal confidence, E of them wrong, after N rows with C wrong ones, adds
    Σ_j (C + j E / S) / (N + j) = E + (C - N E / S) (H(N + S) - H(N)), H the harmonic numbers.
    """
    order = np.argsort(-confidence)
    starts = np.flatnonzero(np.diff(confidence[order], prepend=2.0))
    sizes = np.add.reduceat(counts[order], starts, axis=0)
    wrong = np.add.reduceat(counts[order] * ~correct[order, None], starts, axis=0)
    before = np.cumsum(sizes, axis=0) - sizes
    wrong_before = np.cumsum(wrong, axis=0) - wrong
    total = counts.sum(axis=0)
    harmonic = np.append(0.0, np.cumsum(1 / np.arange(1, int(total.max()) + 1)))
    span = harmonic[(before + sizes).astype(np.int64)] - harmonic[before.astype(np.int64)]
    share = wrong / np.where(sizes > 0, sizes, 1.0)
    return np.asarray((wrong + (wrong_before - before * share) * span).sum(axis=0) / total)


def weighted_equal_mass(
    correct: BoolArray, confidence: FloatArray, n_bins: int, counts: FloatArray
) -> FloatArray:
    """Return the ECE over bins of equal count, edges halfway between neighboring parts."""
    order = np.argsort(confidence)
    ranked, drawn = confidence[order], counts[order]
    n = int(drawn[:, 0].sum())
    parts = min(n_bins, n)
    sizes = np.full(parts, n // parts)
    sizes[: n % parts] += 1
    cut = np.cumsum(sizes)[:-1]
    upto = np.cumsum(drawn, axis=0)
    # The row that holds the cut-th drawn one, and the next drawn one, in each replicate.
    held, after = (
        np.stack([np.searchsorted(column, cut + more) for column in upto.T], axis=1)
        for more in (0, 1)
    )
    edges = (ranked[held] + ranked[after]) / 2
    ends = np.searchsorted(ranked, edges, side="right")
    gap = np.cumsum((confidence - correct)[order, None] * drawn, axis=0)
    gap = np.concatenate([np.zeros((1, gap.shape[1])), gap])
    at = np.concatenate([np.zeros_like(ends[:1]), ends, np.full_like(ends[:1], len(ranked))])
    if not len(ends):
        at = np.stack([np.zeros(gap.shape[1], np.intp), np.full(gap.shape[1], len(ranked))])
    summed = np.take_along_axis(gap, at, axis=0)
    return np.asarray(np.abs(np.diff(summed, axis=0)).sum(axis=0) / n)


def weighted_curve(
    positive: BoolArray, scores: FloatArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return true and false positives above each distinct score, shape (scores, replicates)."""
    order = np.argsort(-scores)
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.inf))
    drawn, flags = counts[order], positive[order, None]
    true = np.cumsum(np.add.reduceat(drawn * flags, starts, axis=0), axis=0)
    false = np.cumsum(np.add.reduceat(drawn * ~flags, starts, axis=0), axis=0)
    return true, false


def weighted_auroc(positive: BoolArray, scores: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the chance that a positive row has the higher score; NaN where a kind is missing."""
    true, false = weighted_curve(positive, scores, counts)
    above = np.diff(false, axis=0, prepend=0) * (true + np.diff(true, axis=0, prepend=0) * -0.5)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(above.sum(axis=0) / (true[-1] * false[-1]))


def weighted_precision(positive: BoolArray, scores: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the average precision; NaN where a kind is missing."""
    true, false = weighted_curve(positive, scores, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        all_rows = np.maximum(true + false, 1)
        summed = (np.diff(true, axis=0, prepend=0) * true / all_rows).sum(axis=0) / true[-1]
    return np.where(false[-1] > 0, summed, np.nan)


def weighted_fpr95(positive: BoolArray, scores: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the share of negatives let through with 95 % of the positives."""
    true, false = weighted_curve(positive, scores, counts)
    at = np.argmax(100 * true >= 95 * true[-1], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        let_through = np.take_along_axis(false, at[None], axis=0)[0] / false[-1]
    return np.where(true[-1] > 0, let_through, np.nan)
