"""What the predicted classes of a window say, while rows come and go.

All numbers are whole, and so exact in any order of rows: the same bits however they came.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Labels


@dataclass(frozen=True, slots=True)
class ClassRows:
    """Rows that enter or leave a window."""

    pred: Labels
    inside: NDArray[np.int64]
    """What is summed for each class, in units of 2^-40, shape (sums, n)."""

    def __getitem__(self, rows: slice) -> "ClassRows":
        """Return some of the rows."""
        return ClassRows(self.pred[rows], self.inside[:, rows])


class Moves:
    """Rows that enter and leave, one after the other: the last entering ones each push one out."""

    def __init__(self, counts: Labels, entering: Labels, leaving: Labels) -> None:
        self._free = len(entering) - len(leaving)
        self.signs = self.in_order(np.ones(len(entering), np.int64), -np.ones_like(leaving))
        self.entering = self.signs > 0
        self.classes = self.in_order(entering, leaving)
        # In order of class, a running sum of changes is the state of that class, up to a constant.
        # Small numbers are sorted several times as fast.
        small = self.classes.astype(np.int16) if len(counts) < 1 << 15 else self.classes
        self._order = np.argsort(small, kind="stable")
        self._sorted = self.classes[self._order]
        self._first = np.flatnonzero(np.diff(self._sorted, prepend=-1))
        self._spans = np.diff(self._first, append=len(self._order))
        self.before = self.just_before(counts, self.signs)
        """How many rows of its class were in the window just before."""

    def in_order(self, entering: NDArray[Any], leaving: NDArray[Any]) -> NDArray[Any]:
        """Return what belongs to rows, in the order of their moves."""
        pairs = np.stack([leaving, entering[self._free :]], axis=1).ravel()
        return np.concatenate([entering[: self._free], pairs])

    def just_before(self, start: NDArray[np.int64], change: NDArray[np.int64]) -> Labels:
        """Return the sum over the class of each row before its move, which changes it by that."""
        changes = change[self._order]
        running = np.cumsum(changes) - changes
        running += start[self._sorted] - np.repeat(running[self._first], self._spans)
        found = np.empty_like(running)
        found[self._order] = running
        return found
