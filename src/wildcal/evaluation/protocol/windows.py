"""The context of test rows: which rows share one, and what it adds to each row's temperature."""

from collections.abc import Iterator, Sequence

import numpy as np

from wildcal.calibrators.context import Context, ContextScaling, RowStatistics
from wildcal.core.arrays import FloatArray, Logits


def window_slices(lengths: Sequence[int], size: int | None) -> Iterator[slice]:
    """Yield the windows of joined splits: whole splits, or disjoint pieces of `size` rows.

    No window reaches over two splits; the last one of a split may be shorter.

    >>> [(w.start, w.stop) for w in window_slices([5, 2], 3)]
    [(0, 3), (3, 5), (5, 7)]
    """
    start = 0
    for length in lengths:
        stop = start + length
        for first in range(start, stop, size or max(1, length)):
            yield slice(first, min(stop, first + (size or length)))
        start = stop


def offsets(
    calibrator: ContextScaling, logits: Logits, lengths: Sequence[int], size: int | None
) -> FloatArray:
    """Return what its window adds to each row, for splits of these lengths that were joined."""
    rows = calibrator.row_statistics(logits)
    found = np.zeros(len(logits))
    for window in window_slices(lengths, size):
        mine = RowStatistics(rows.energy[window], rows.confidence[window], rows.pred[window])
        found[window] = calibrator.offset(Context.of_rows(mine, calibrator.n_classes_))
    return found
