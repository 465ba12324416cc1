"""Sums over the last samples of a stream, in a ring of buckets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from wildcal.core.arrays import FloatArray

N_BUCKETS: Final = 20


@dataclass
class Ring:
    """Sums of 20 buckets of samples; a new bucket replaces the oldest one.

    Parameters
    ----------
    sums
        Shape (20, ...): for each bucket whatever is summed.
    newest
        Number of the newest bucket; its sums are at ``newest % 20``.
    n_newest
        Samples in it.
    """

    sums: FloatArray
    newest: int = 0
    n_newest: int = 0

    def fill(self, n: int, size: int) -> Iterator[tuple[FloatArray, slice]]:
        """Distribute n samples over buckets of some size; yield sums to add to, and samples."""
        turn = N_BUCKETS * size
        start = max(n // turn - 1, 0) * turn  # earlier ones would be replaced
        while start < n:
            if self.n_newest >= size:
                self.newest, self.n_newest = self.newest + 1, 0
                self.sums[self.newest % N_BUCKETS] = 0.0
            stop = min(n, start + size - self.n_newest)
            self.n_newest += stop - start
            yield self.sums[self.newest % N_BUCKETS], slice(start, stop)
            start = stop

    def copy(self) -> "Ring":
        """Return a copy."""
        return Ring(self.sums.copy(), self.newest, self.n_newest)

    def merged(self, other: "Ring") -> "Ring":
        """Return the sums of two streams; the newest buckets are added, and so on."""
        theirs = np.roll(other.sums, self.newest - other.newest, axis=0)
        return Ring(self.sums + theirs, self.newest, self.n_newest + other.n_newest)
