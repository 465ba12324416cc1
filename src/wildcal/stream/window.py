"""The rolling window: the last rows of a stream as whole numbers, and their sums.

Features are kept in units of 2^-40. Sums of whole numbers are exact in any order, so nothing drifts
in a long stream, and a row's window is the same to the last bit however the rows came in calls.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators.context import Context, RowStatistics
from wildcal.core.arrays import FloatArray, Labels
from wildcal.stream.pairs import rolling_pairs

UNIT: Final = 2.0**-40
LARGEST_WINDOW: Final = 100_000
"""Rows; with features of at most 6, sums stay far below 2^63."""
# Rows taken in at once; fewer would not fill NumPy's loops, more would only take memory.
_PIECE: Final = 4096
ENERGY, CONFIDENCE, PROBABILITY, CLASS = range(4)

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Totals:
    """The window at one moment. A new one replaces it as a whole, so no reader sees half of it."""

    seen: int
    """Rows since the beginning of the stream."""
    sums: Whole
    """Of energy, confidence and calibrated probability, and of p (1 - p), in units of 2^-40."""
    counts: Labels
    pairs: int
    filled: Whole | None
    """Sums of energy and confidence over the last window that was all new, at rows W, 2 W, ..."""

    def context(self) -> Context:
        """Return the context of the rows in the window."""
        energy, confidence = (self.sums[:2] * UNIT).tolist()
        return Context(int(self.counts.sum()), energy, confidence, tuple(self.counts.tolist()))


@dataclass(frozen=True, slots=True)
class Step:
    """Some rows that are about to enter, with the window of each: the rows up to itself."""

    seen: Whole
    """Rows since the beginning, this one included."""
    n: Whole
    """Rows in the window."""
    sums: Whole
    """Of energy and confidence, shape (2, n)."""
    pairs: Whole
    filled: Whole
    """Sums over the last window that was all new, shape (2, n); zero before there is one."""

    def means(self) -> FloatArray:
        """Return the mean energy and confidence of each window, shape (2, n)."""
        return self.sums * UNIT / self.n

    def same_class_rate(self) -> FloatArray:
        """Return how often two rows of a window have the same class."""
        return np.asarray(self.pairs / np.maximum(self.n * (self.n - 1), 1))


class Window:
    """The last `size` rows of a stream.

    Rows enter in two moves, because a row's probability depends on its own window: `enter` says
    what the windows will be, `commit` makes it so. An interrupt before the end of `commit` leaves
    everything as it was: rows wait in slots that are not in use, and one assignment counts them in.
    """

    def __init__(self, size: int, n_classes: int) -> None:
        self.size = size
        self.piece = max(size, _PIECE)
        """How many rows may enter at once."""
        self._slots = np.zeros((4, size + self.piece), np.int64)
        zeros = np.zeros(4, np.int64)
        self.totals = Totals(0, zeros, np.zeros(n_classes, np.int64), 0, None)

    def enter(self, rows: RowStatistics) -> Step:
        """Return the windows of new rows, at most `piece` of them."""
        now, n = self.totals, len(rows.pred)
        slots = self._at(now.seen, n)
        self._slots[ENERGY, slots] = whole(rows.energy)
        self._slots[CONFIDENCE, slots] = whole(rows.confidence)
        self._slots[CLASS, slots] = rows.pred
        leaving = self._leaving(n)
        change = self._slots[:2, slots]
        change[:, n - len(leaving) :] -= self._slots[:2, leaving]
        sums = now.sums[:2, None] + np.cumsum(change, axis=1)
        seen = now.seen + np.arange(1, n + 1)
        # The last row up to this one at which a window was all new, counted within the piece.
        last = seen // self.size * self.size - now.seen - 1
        earlier = np.zeros(2, np.int64) if now.filled is None else now.filled
        filled = np.where(last >= 0, sums[:, np.maximum(last, 0)], earlier[:, None])
        pairs = rolling_pairs(now.counts, rows.pred, self._slots[CLASS, leaving])
        return Step(seen, np.minimum(seen, self.size), sums, now.pairs + pairs, filled)

    def commit(self, step: Step, probability: FloatArray) -> Whole:
        """Let rows in, and return Σ p and Σ p (1 - p) over the window of each, shape (2, n)."""
        now, n = self.totals, len(probability)
        slots, leaving = self._at(now.seen, n), self._leaving(n)
        self._slots[PROBABILITY, slots] = whole(probability)
        change = with_variance(self._slots[PROBABILITY, slots])
        change[:, n - len(leaving) :] -= with_variance(self._slots[PROBABILITY, leaving])
        sums = now.sums[2:, None] + np.cumsum(change, axis=1)
        k = len(now.counts)
        counts = now.counts + np.bincount(self._slots[CLASS, slots], minlength=k)
        counts -= np.bincount(self._slots[CLASS, leaving], minlength=k)
        self.totals = Totals(
            seen=now.seen + n,
            sums=np.concatenate([step.sums[:, -1], sums[:, -1]]),
            counts=counts,
            pairs=int(step.pairs[-1]),
            filled=step.filled[:, -1].copy() if now.seen + n >= self.size else None,
        )
        return sums

    def rows(self) -> Whole:
        """Return the rows of the window, the oldest first, shape (4, n)."""
        n = min(self.totals.seen, self.size)
        return self._slots[:, self._at(self.totals.seen - n, n)]

    def restore(self, seen: int, rows: Whole, filled: Whole | None) -> None:
        """Become the window that `rows` was asked of, after `seen` rows."""
        n = rows.shape[1]
        self._slots[:, self._at(seen - n, n)] = rows
        counts = np.bincount(rows[CLASS], minlength=len(self.totals.counts))
        sums = np.concatenate([rows[:2].sum(axis=1), with_variance(rows[PROBABILITY]).sum(axis=1)])
        self.totals = Totals(seen, sums, counts, int(counts @ (counts - 1)), filled)

    def _at(self, start: int, n: int) -> Whole:
        """Return the slots of rows start, start + 1, ... of the stream."""
        room = self._slots.shape[1]
        return np.asarray((start % room + np.arange(n)) % room)

    def _leaving(self, n: int) -> Whole:
        """Return the slots of the rows that the next n rows push out."""
        start = max(0, self.totals.seen - self.size)
        return self._at(start, max(0, self.totals.seen + n - self.size) - start)


def whole(values: FloatArray) -> Whole:
    """Return numbers in units of 2^-40."""
    return np.rint(values / UNIT).astype(np.int64)


def with_variance(probability: Whole) -> Whole:
    """Return p and p (1 - p) in units of 2^-40, shape (2, n)."""
    p = probability * UNIT
    return np.stack([probability, whole(p * (1 - p))])
