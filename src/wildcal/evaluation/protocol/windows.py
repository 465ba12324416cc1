"""The context of test rows: which rows share one, and what it adds to each row's temperature."""

from collections.abc import Iterator, Sequence

import numpy as np

from wildcal.calibrators.context import Context, ContextScaling
from wildcal.core.arrays import FloatArray, Labels, Logits
from wildcal.core.softmax import by_row


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
    # Not through the door, whose refusal would end all methods: the rows of a suite are checked.
    rows = calibrator._row_statistics(logits)
    found = np.zeros(len(logits))
    for window in window_slices(lengths, size):
        found[window] = calibrator.offset(Context.of_rows(rows[window], calibrator.n_classes_))
    return found


def in_common(
    calibrator: ContextScaling, parts: Sequence[tuple[Logits, Labels]]
) -> list[FloatArray]:
    """Return the confidences of chosen rows of several sets, all in the context of their mixture.

    In a context of its own, each set would be told from the others by the context and not by its
    rows.
    """
    mixture = Context(0, 0.0, 0.0, (0,) * calibrator.n_classes_)
    for logits, chosen in parts:
        rows = calibrator._row_statistics(logits)[chosen]
        mixture += Context.of_rows(rows, calibrator.n_classes_)
    function = calibrator._confidence_at(calibrator.offset(mixture))
    found = [by_row(logits, function)[chosen] for logits, chosen in parts]
    return [np.minimum(confidence.astype(np.float64), 1.0) for confidence in found]
