"""Piecewise-linear functions of many probabilities, one for all columns or one for each.

`np.interp` searches anew for each value and mispredicts most of its branches, and it takes one
function at a time. Here the leading bits of a probability, which are a monotone function of it,
say where in a table to look: one or two thresholds away from the answer.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, Proba

# Probabilities below 2**-64 share the first cell of a table.
_OCTAVES = 64
# Cells of all tables together, in powers of two: 256 KB of them stay in the cache of a core.
_CELL_BITS = 16
# One function of so few values is quicker without a table.
_FEW = 1 << 9
# Unsigned type, bits of its mantissa and number of 2**-64 in it.
_LAYOUT: dict[np.dtype[Any], tuple[Any, int, int]] = {
    np.dtype(np.float32): (np.uint32, 23, 127 - _OCTAVES),
    np.dtype(np.float64): (np.uint64, 52, 1023 - _OCTAVES),
}


class Curves:
    """One function for all columns of a matrix, or one for each.

    Parameters
    ----------
    thresholds, values
        Of each function: increasing x in [0, 1], and f(x). It is linear in between and constant
        outside.
    dtype
        Of the probabilities.

    Examples
    --------
    >>> curves = Curves([np.array([0.25, 0.75])], [np.array([0.0, 1.0])], np.dtype(np.float64))
    >>> curves(np.array([[0.125, 0.5], [0.75, 1.0]]))
    array([[0. , 0.5],
           [1. , 1. ]])
    """

    def __init__(
        self,
        thresholds: Sequence[FloatArray],
        values: Sequence[FloatArray],
        dtype: np.dtype[Any],
    ) -> None:
        n = len(thresholds)
        unsigned, mantissa, lowest = _LAYOUT[dtype]
        bits = max(2, _CELL_BITS - 6 - (n - 1).bit_length())  # of the mantissa, in a cell's number
        self._unsigned, self._shift = unsigned, unsigned(mantissa - bits)
        first = lowest << bits
        self._first = unsigned(first)
        cells = (_OCTAVES << bits) + 1
        edges = (np.arange(first, first + cells, dtype=unsigned) << self._shift).view(dtype)
        edges = edges.astype(np.float64)
        edges[0] = 0.0
        lengths = np.array([len(x) + 1 for x in thresholds])
        # Segment c of a function lies right of c of its thresholds; those of all stand in a row.
        starts = np.append(0, np.cumsum(lengths))
        segment = np.empty((n, cells), np.int32)
        self._origin, self._height, self._slope, self._next = np.zeros((4, starts[-1]))
        for k, (x, y) in enumerate(zip(thresholds, values, strict=True)):
            mine = slice(starts[k], starts[k + 1])
            segment[k] = starts[k] + np.searchsorted(x, edges, side="right")
            self._origin[mine], self._height[mine] = np.append(x[0], x), np.append(y[0], y)
            self._next[mine] = np.append(x, np.inf)
            with np.errstate(over="ignore"):  # x may be as close as denormal numbers are
                self._slope[starts[k] + 1 : starts[k + 1] - 1] = np.diff(y) / np.diff(x)
        self._segment: NDArray[np.int32] = segment.reshape(-1)
        # In a cell with one threshold a comparison decides; with more, they are searched.
        last = np.append(self._segment[1:], 0).reshape(n, cells)
        last[:, -1] = starts[1:] - 1
        self._last = last.reshape(-1)
        self._crowded = self._last > self._segment + 1
        self._column = np.arange(n) * cells if n > 1 else None

    def __call__(self, p: Proba) -> FloatArray:
        """Return f_k(p) of every entry of a matrix, k its column, the bits of `np.interp`."""
        if self._column is None and p.size < _FEW:
            return np.asarray(np.interp(p, self._next[:-1], self._height[1:]))
        cell = p.view(self._unsigned) >> self._shift
        np.maximum(cell, self._first, out=cell)
        cell -= self._first
        where: NDArray[np.intp] = cell.astype(np.intp)
        if self._column is not None:
            where += self._column
        # mode="clip" never clips here; it spares the bounds check of the default mode.
        c = self._segment.take(where, mode="clip")
        crowded = np.flatnonzero(self._crowded.take(where, mode="clip"))
        c += p >= self._next.take(c, mode="clip")
        if len(crowded):
            values, cells = p.reshape(-1)[crowded], where.reshape(-1)[crowded]
            low, high = self._segment[cells], self._last[cells]
            c.reshape(-1)[crowded] = self._search(values, low, high)
        f = p - self._origin.take(c, mode="clip")
        f *= self._slope.take(c, mode="clip")
        f += self._height.take(c, mode="clip")
        return np.asarray(f)

    def _search(
        self, p: Proba, low: NDArray[np.int32], high: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Return the segment of each p, which is one of low..high: bisection, all at once."""
        while (low < high).any():
            middle = (low + high) >> 1
            right = p >= self._next[middle]
            low = np.where(right, np.minimum(middle + 1, high), low)
            high = np.where(right, high, middle)
        return low


class _Fitted(Protocol):
    thresholds_: Any
    values_: Any


def curves_of(method: _Fitted, dtype: np.dtype[Any]) -> Curves:
    """Return the curves of a fitted method, made when it is first asked and kept with it."""
    made: tuple[Any, Any, np.dtype[Any], Curves] | None = method.__dict__.get("_curves")
    if made is not None:
        x, y, of, curves = made
        if x is method.thresholds_ and y is method.values_ and of == dtype:
            return curves
    x, y = method.thresholds_, method.values_
    curves = Curves(x, y, dtype) if isinstance(x, list) else Curves([x], [y], dtype)
    method.__dict__["_curves"] = (x, y, dtype, curves)
    return curves
