"""Piecewise-linear functions of many probabilities, one for all columns or one for each.

`np.interp` searches anew for each value and mispredicts most of its branches, and it takes one
function at a time. Here the leading bits of a probability, which are a monotone function of it,
are its cell in a table. An isotonic regression is mostly plateaus, so the table has the value of
every cell in which the function is constant; only what falls between plateaus is searched.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray

# Probabilities below 2**-64 share the first cell of a table.
_OCTAVES = 64
# Cells of all tables together, in powers of two, and of one table at most: the one that is in use
# stays in the cache of a core.
_CELL_BITS = 18
_MOST_CELL_BITS = 16
# Entries mapped together: what is made of them stays in the nearest cache, and in memory that the
# allocator has at hand; larger arrays are fetched from the system anew, page by page.
_PIECE = 1 << 14
# One function of so few values is quicker without a table, and so are many of one row.
_FEW = 1 << 12
_FEW_COLUMNS = 128
# So few are not worth sorting.
_FEW_TO_SORT = 1 << 8
# Bits of the mantissa of a float64, and the number of 2**-64 in its exponent.
_MANTISSA, _LOWEST = 52, 1023 - _OCTAVES


class Curves:
    """One function for all columns of a matrix, or one for each.

    Parameters
    ----------
    thresholds, values
        Of each function: increasing x in [0, 1], and f(x). It is linear in between and constant
        outside.

    Examples
    --------
    >>> curves = Curves([np.array([0.25, 0.75])], [np.array([0.0, 1.0])])
    >>> curves(np.array([[0.125, 0.5], [0.75, 1.0]]))
    array([[0. , 0.5],
           [1. , 1. ]])
    """

    def __init__(self, thresholds: Sequence[FloatArray], values: Sequence[FloatArray]) -> None:
        n = len(thresholds)
        # Of the mantissa, in a cell's number.
        bits = max(2, min(_MOST_CELL_BITS, _CELL_BITS - (n - 1).bit_length()) - 6)
        self._shift = np.int64(_MANTISSA - bits)
        first = _LOWEST << bits
        self._first = np.int64(first)
        cells = (_OCTAVES << bits) + 1
        edges = (np.arange(first, first + cells) << self._shift).view(np.float64)
        edges[0] = 0.0
        lengths = np.array([len(x) + 1 for x in thresholds])
        # Segment c of a function lies right of c of its thresholds; those of all stand in a row.
        starts = np.append(0, np.cumsum(lengths))
        segment = np.empty((n, cells), np.int32)
        self._columns = np.arange(n)
        self._offset = self._columns * cells - first
        self._origin, self._height, self._slope, self._next = np.zeros((4, starts[-1]))
        # Complex numbers are ordered by their real part first: all functions in one sorted array.
        self._keys = np.repeat(np.arange(n), lengths).astype(np.complex128)
        for k, (x, y) in enumerate(zip(thresholds, values, strict=True)):
            mine = slice(starts[k], starts[k + 1])
            # How many thresholds lie at or below each edge.
            passed = np.bincount(np.searchsorted(edges, x), minlength=cells)[:cells]
            segment[k] = starts[k] + np.cumsum(passed)
            self._origin[mine], self._height[mine] = np.append(x[0], x), np.append(y[0], y)
            self._next[mine] = np.append(x, np.inf)
            with np.errstate(over="ignore"):  # x may be as close as denormal numbers are
                self._slope[starts[k] + 1 : starts[k + 1] - 1] = np.diff(y) / np.diff(x)
        self._keys.imag = self._next
        # The thresholds in a cell, if any, decide between its first and its last segment.
        last = np.column_stack([segment[:, 1:], starts[1:] - 1]).astype(np.int32)
        flat = (segment == last) & (self._slope[segment] == 0)
        self._value = np.where(flat, self._height[segment], np.nan)

    def __call__(
        self, p: FloatArray, out: FloatArray | None = None, *, classes_first: bool = False
    ) -> FloatArray:
        """Return f_k(p) of every entry of a matrix, k its column, the bits of `np.interp`.

        With `classes_first` k is its row. Where there is one function, p may be any array.
        """
        n = len(self._value)
        if n == 1 and p.size < _FEW:
            return np.asarray(np.interp(p, self._next[:-1], self._height[1:]))
        if len(p) == 1 and n <= _FEW_COLUMNS and not classes_first:
            return self._between(p, self._columns)
        f = np.empty(p.shape) if out is None else out
        step = 1 if classes_first else max(1, _PIECE // max(1, p[:1].size))
        for start in range(0, len(p), step):
            piece = slice(start, start + step)
            # mode="clip" sends what lies below the first cell there, and spares a bounds check.
            if n > 1 and not classes_first:
                self._value.take(self._cells(p[piece]), out=f[piece], mode="clip")
            else:
                cell = p[piece].view(np.int64) >> self._shift
                cell -= self._first
                self._value[start if n > 1 else 0].take(cell, out=f[piece], mode="clip")
        between = np.flatnonzero(f != f)
        if len(between):
            column: Any = 0
            if n > 1:
                column = between // p.shape[1] if classes_first else between % n
            f.reshape(-1)[between] = self._between(p.reshape(-1)[between], column)
        return f

    def _cells(self, p: FloatArray) -> NDArray[np.int64]:
        """Return where each entry of some rows stands among the cells of all columns."""
        cell = p.view(np.int64) >> self._shift
        np.maximum(cell, self._first, out=cell)
        return np.asarray(cell + self._offset)

    def _between(self, p: FloatArray, column: Any) -> FloatArray:
        """Return f(p), its segment looked for among those of its function."""
        key = np.empty(p.shape, np.complex128)
        key.real, key.imag = column, p
        low = self._keys.searchsorted(key, "right")
        f = p - self._origin[low]
        f *= self._slope[low]
        f += self._height[low]
        return np.asarray(f)


def interpolated(x: FloatArray, xp: FloatArray, fp: FloatArray) -> FloatArray:
    """Return `np.interp(x, xp, fp)`, the same bits.

    It is looked up in order: the search then begins where the one before ended, which with
    thousands of points takes a third of the time, that of sorting included.
    """
    if len(x) < _FEW_TO_SORT:
        return np.asarray(np.interp(x, xp, fp))
    order, f = np.argsort(x), np.empty(len(x))
    f[order] = np.interp(x[order], xp, fp)
    return f


class Fitted(Protocol):
    """A method with thresholds and values of one curve, or of a list of them."""

    thresholds_: Any
    values_: Any


def curves_of(method: Fitted) -> Curves:
    """Return the curves of a fitted method, made when it is first asked and kept with it."""
    made: tuple[Any, Any, Curves] | None = method.__dict__.get("_curves")
    if made is not None:
        x, y, curves = made
        if x is method.thresholds_ and y is method.values_:
            return curves
    x, y = method.thresholds_, method.values_
    curves = Curves(x, y) if isinstance(x, list) else Curves([x], [y])
    method.__dict__["_curves"] = (x, y, curves)
    return curves
