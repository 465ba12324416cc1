"""The pairs of an isotonic regression of 0/1 targets, without ever sorting or storing all of them.

A pair (x, 0) that follows a pair (x', 1) with x' < x is always pooled with it, so every block of
the solution except the leading zeros begins at a one. It is enough to know, for each gap between
neighboring ones, how many pairs lie in it and which is the last: N numbers instead of N x K, and
fewer where the ones are taken a range at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators.ones import SmallestOnes
from wildcal.calibrators.pava import Pooling, Thresholds
from wildcal.core.arrays import FloatArray

Values: TypeAlias = NDArray[np.floating[Any]]


class GapCounter:
    """The pairs between neighboring ones, within the range of these.

    Parameters
    ----------
    ones
        The x of every pair with target 1 in that range.

    Notes
    -----
    Every pair, those with target 1 included, is then to be handed to `add`, in any pieces; those
    outside of the range are passed over. Pairs with equal x are one point with their mean target,
    as in scikit-learn; unlike there, x that differ by less than the resolution of their type (1e-6
    in float32) are not merged.
    """

    def __init__(self, ones: SmallestOnes) -> None:
        self._x, self._ones = ones.distinct()
        self.low, self.high = ones.low, ones.high
        self.largest_zero = -np.inf
        """The largest x below all ones, in the lowest range."""
        self._total = np.zeros(len(self._x))
        self._last = self._x.copy()

    @property
    def is_whole(self) -> bool:
        """Whether no pair lies outside of the range."""
        return self.low == -np.inf and self.high == np.inf

    def add(self, x: Values, weight: FloatArray | None = None) -> None:
        """Count pairs; x must be sorted, and of the type of the ones."""
        if not self.is_whole:
            mine = slice(*np.searchsorted(x, np.array([self.low, self.high], x.dtype)))
            x, weight = x[mine], None if weight is None else weight[mine]
        some, start = self._gaps(x)
        zeros = int(start[0]) if len(some) else len(x)
        if zeros:
            self.largest_zero = max(self.largest_zero, float(x[zeros - 1]))
        if not len(some):
            return
        end = np.append(start[1:], len(x))
        self._total[some] += end - start if weight is None else np.add.reduceat(weight, start)
        self._last[some] = np.maximum(self._last[some], x[end - 1])

    def _gaps(self, x: Values) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the gaps that sorted pairs lie in, and the first pair in each of these."""
        if len(x) < len(self._x):  # whichever is the shorter is looked up in the other
            gap = np.searchsorted(self._x, x, side="right") - 1
            first = np.flatnonzero(np.diff(gap, prepend=-1))
            return gap[first], first
        bounds = np.append(np.searchsorted(x, self._x), len(x))
        some = np.flatnonzero(np.diff(bounds))
        return some, bounds[some]

    def pool_into(self, curve: Pooling) -> None:
        """Hand over all gaps as cells."""
        # In place, and with the scores as they are: every copy is another 8 bytes for each one.
        total = np.maximum(self._total, self._ones, out=self._total)
        curve.add(self._x, self._last, self._ones, total)


def fit_in_ranges(
    n: int,
    most: int,
    collect: Callable[[Sequence[SmallestOnes]], None],
    count: Callable[[Sequence[GapCounter]], None],
) -> list[Thresholds]:
    """Return n isotonic regressions, of each of which at most so many ones are held at a time.

    The first function hands all ones to the collectors, the second all pairs to the counters: each
    walks over the rows once for each range. Ranges are done from low to high, which is the order in
    which cells are pooled, so their borders change no bit.
    """
    curves = [Pooling() for _ in range(n)]
    zeros = np.full(n, -np.inf)
    low = [-np.inf] * n
    while min(low) < np.inf:
        ones = [SmallestOnes(start, most) for start in low]
        collect(ones)
        gaps = [GapCounter(found) for found in ones]
        low = [gap.high for gap in gaps]
        del ones
        count(gaps)
        for curve, gap in zip(curves, gaps, strict=True):
            gap.pool_into(curve)
        zeros = np.maximum(zeros, [gap.largest_zero for gap in gaps])
        del gaps
    return [
        _with_zeros(zero, *curve.thresholds()) for zero, curve in zip(zeros, curves, strict=True)
    ]


def _with_zeros(largest: float, x: FloatArray, y: FloatArray) -> Thresholds:
    """Return a function that is 0 up to the largest x below all ones."""
    if np.isfinite(largest):
        x, y = np.append(largest, x), np.append(0.0, y)
    return (x, y) if len(x) else (np.zeros(1), np.zeros(1))
