"""The smallest probabilities that true classes were given: as many distinct ones as there is room.

Every pair of an isotonic regression of 0/1 targets is counted in a gap between two of them. Where
they are too many to hold, they are taken in turns, a range of the probability at a time.
"""

import sys
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray

Values: TypeAlias = NDArray[np.floating[Any]]

# Fewer than these are not sorted on their own.
_FEW: Final = 1 << 16


class SmallestOnes:
    """The smallest distinct x from `low` on, at most so many, each with its summed weight.

    Parameters
    ----------
    low
        Smaller ones are passed over.
    most
        How many are kept.

    Notes
    -----
    Weights are added in the order in which they come, one by one: neither `most` nor how the
    values are cut into pieces changes a bit of their sums.

    Examples
    --------
    >>> ones = SmallestOnes(most=2)
    >>> ones.add(np.array([0.5, 0.25, 0.75, 0.25]))
    >>> ones.distinct()
    (array([0.25, 0.5 ]), array([2., 1.]))
    >>> ones.high
    0.75
    """

    def __init__(self, low: float = -np.inf, most: int = sys.maxsize) -> None:
        self.low = low
        self.high = np.inf
        """The smallest that was left out, known after `distinct`: where the next range begins."""
        self._most = most
        self._parts: list[tuple[Values, FloatArray]] = []
        self._waiting = 0

    def add(self, x: Values, weight: FloatArray | None = None) -> None:
        """Take some more."""
        if self.low > -np.inf or self.high < np.inf:
            mine = (x >= self.low) & (x < self.high)
            x, weight = x[mine], None if weight is None else weight[mine]
        if not len(x):
            return
        self._parts.append((x, np.ones(len(x)) if weight is None else weight))
        self._waiting += len(x)
        # Sorting anew when their number has doubled is sorting each about twice.
        if self._waiting > max(_FEW, len(self._parts[0][0])):
            self._settle()

    def distinct(self) -> tuple[Values, FloatArray]:
        """Return them in increasing order, and their weights."""
        if not self._parts:
            return np.empty(0), np.empty(0)
        self._settle()
        return self._parts[0]

    def _settle(self) -> None:
        if not self._waiting:
            return
        x, index = np.unique(np.concatenate([x for x, _ in self._parts]), return_inverse=True)
        weights = np.concatenate([w for _, w in self._parts])
        weight = np.bincount(index, weights, len(x)).astype(np.float64, copy=False)
        if len(x) > self._most:
            self.high = float(x[self._most])
            x, weight = x[: self._most].copy(), weight[: self._most].copy()
        self._parts, self._waiting = [(x, weight)], 0
