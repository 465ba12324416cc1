"""Which test rows share a window."""

from collections.abc import Iterator, Sequence

import numpy as np

from wildcal._old.core.arrays import Labels


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


def window_numbers(lengths: Sequence[int], size: int | None) -> Labels:
    """Return the number of the window of each row, for splits of these lengths that were joined.

    >>> window_numbers([5, 2], 3)
    array([0, 0, 0, 1, 1, 2, 2])
    """
    sizes = [window.stop - window.start for window in window_slices(lengths, size)]
    return np.repeat(np.arange(len(sizes)), sizes)
