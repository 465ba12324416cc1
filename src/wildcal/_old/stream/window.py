"""The rolling window: the last rows of a stream as whole numbers, and their sums.

Features are kept in units of 2^-40. Sums of whole numbers are exact in any order, so nothing drifts
in a long stream, and a row's window is the same to the last bit however the rows came in calls.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.calibrators.context import Context, RowStatistics, WindowMap, terms
from wildcal._old.calibrators.context.classes import ClassRows
from wildcal._old.core.arrays import FloatArray, Labels

UNIT: Final = terms.UNIT
LARGEST_WINDOW: Final = 100_000
"""Rows; with features of at most 6, sums stay far below 2^63."""
# Rows taken in at once; fewer would not fill NumPy's loops, more would only take memory.
_PIECE: Final = 4096
# The last two rows of the slots, after the features.
PROBABILITY, CLASS = -2, -1

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Totals:
    """The window at one moment. A new one replaces it as a whole, so no reader sees half of it."""

    seen: int
    """Rows since the beginning of the stream."""
    sums: Whole
    """Of the features, of calibrated probability p, and of p (1 - p), in units of 2^-40."""
    counts: Labels
    inside: Whole
    """Sums of some features for each class, as the calibrator reads them, shape (sums, K)."""
    filled: Whole | None
    """Sums of the features over the last window that was all new, at rows W, 2 W, ..."""
    numbers: tuple[float, ...] | None = None
    """What the calibrator reads off the classes, where it is known already."""

    def context(self) -> Context:
        """Return the context of the rows in the window."""
        sums = tuple((self.sums[:-2] * UNIT).tolist())
        inside = tuple((self.inside.ravel() * UNIT).tolist())
        return Context(int(self.counts.sum()), sums, tuple(self.counts.tolist()), inside)


@dataclass(frozen=True, slots=True)
class Step:
    """Some rows that are about to enter, with the window of each: the rows up to itself."""

    seen: Whole
    """Rows since the beginning, this one included."""
    n: Whole
    """Rows in the window."""
    sums: Whole
    """Of the features, shape (features, n)."""
    classes: FloatArray
    """What the calibrator reads off the classes, shape (m, n)."""
    filled: Whole
    """Sums over the last window that was all new; zero before there is one."""

    def means(self) -> FloatArray:
        """Return the mean features of each window, shape (features, n)."""
        return self.sums * UNIT / self.n


class Window:
    """The last `size` rows of a stream.

    Rows enter in two moves, because a row's probability depends on its own window: `enter` says
    what the windows will be, `commit` makes it so. An interrupt before the end of `commit` leaves
    everything as it was: rows wait in slots that are not in use, and one assignment counts them in.
    """

    def __init__(self, size: int, form: WindowMap) -> None:
        self.size, self._form = size, form
        self.piece = max(size, _PIECE)
        """How many rows may enter at once."""
        self._slots = np.zeros((len(form.features) + 2, size + self.piece), np.int64)
        zeros = np.zeros(len(form.features) + 2, np.int64)
        k = form.n_classes_
        inside = np.zeros((len(form.by_class), k), np.int64)
        self._kept = np.array(form.by_class, np.int64)
        self.totals = Totals(0, zeros, np.zeros(k, np.int64), inside, None)

    def enter(self, rows: RowStatistics) -> Step:
        """Return the windows of new rows, at most `piece` of them."""
        now, n = self.totals, len(rows.pred)
        slots = self._at(now.seen, n)
        change = whole(rows.features)
        self._slots[:-2, slots] = change
        self._slots[CLASS, slots] = rows.pred
        leaving = self._leaving(n)
        change[:, n - len(leaving) :] -= self._slots[:-2, leaving]
        sums = now.sums[:-2, None] + np.cumsum(change, axis=1)
        seen = now.seen + np.arange(1, n + 1)
        # The last row up to this one at which a window was all new, counted within the piece.
        last = seen // self.size * self.size - now.seen - 1
        earlier = np.zeros(len(sums), np.int64) if now.filled is None else now.filled
        filled = np.where(last >= 0, sums[:, np.maximum(last, 0)], earlier[:, None])
        come, gone = self._class_rows(slots), self._class_rows(leaving)
        read = self._form.rolling_class_numbers(now.counts, now.inside, come, gone)
        return Step(seen, np.minimum(seen, self.size), sums, read, filled)

    def commit(self, step: Step, probability: FloatArray) -> Whole:
        """Let rows in, and return Σ p and Σ p (1 - p) over the window of each, shape (2, n)."""
        now, n = self.totals, len(probability)
        slots, leaving = self._at(now.seen, n), self._leaving(n)
        self._slots[PROBABILITY, slots] = whole(probability)
        change = with_variance(self._slots[PROBABILITY, slots])
        change[:, n - len(leaving) :] -= with_variance(self._slots[PROBABILITY, leaving])
        sums = now.sums[-2:, None] + np.cumsum(change, axis=1)
        k = len(now.counts)
        counts = now.counts + np.bincount(self._slots[CLASS, slots], minlength=k)
        counts -= np.bincount(self._slots[CLASS, leaving], minlength=k)
        inside = now.inside + self._by_class(slots) - self._by_class(leaving)
        self.totals = Totals(
            seen=now.seen + n,
            sums=np.concatenate([step.sums[:, -1], sums[:, -1]]),
            counts=counts,
            inside=inside,
            filled=step.filled[:, -1].copy() if now.seen + n >= self.size else None,
        )
        return sums

    def leaving_row(self) -> list[int] | None:
        """Return the row that the next one pushes out, where the window is full."""
        seen, size = self.totals.seen, self.size
        if seen < size:
            return None
        found: list[int] = self._slots[:, (seen - size) % self._slots.shape[1]].tolist()
        return found

    def commit_row(self, row: tuple[int, ...], after: Totals) -> None:
        """Let one row in, with what the window is then."""
        self._slots[:, self.totals.seen % self._slots.shape[1]] = row
        self.totals = after

    def rows(self) -> Whole:
        """Return the rows of the window, the oldest first: features, probability, class."""
        n = min(self.totals.seen, self.size)
        return self._slots[:, self._at(self.totals.seen - n, n)]

    def restore(self, seen: int, rows: Whole, filled: Whole | None) -> None:
        """Become the window that `rows` was asked of, after `seen` rows."""
        n = rows.shape[1]
        slots = self._at(seen - n, n)
        self._slots[:, slots] = rows
        counts = np.bincount(rows[CLASS], minlength=len(self.totals.counts))
        sums = [rows[:-2].sum(axis=1), with_variance(rows[PROBABILITY]).sum(axis=1)]
        self.totals = Totals(seen, np.concatenate(sums), counts, self._by_class(slots), filled)

    def _class_rows(self, slots: Whole) -> ClassRows:
        return ClassRows(self._slots[CLASS, slots], self._slots[self._kept[:, None], slots])

    def _by_class(self, slots: Whole) -> Whole:
        """Return the sums of features for each class, exactly, which bincount's are not."""
        found = np.zeros_like(self.totals.inside)
        for of, feature in zip(found, self._kept, strict=True):
            np.add.at(of, self._slots[CLASS, slots], self._slots[feature, slots])
        return found

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
