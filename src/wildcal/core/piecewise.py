"""Lookup in sorted tables: step functions and linear interpolation, on every array library.

A table has shape (m,), one for all entries of `x`, or (n_classes, m), one for each column of `x`.
`m` is a power of two minus one; `pad` fills up with infinite knots.
"""

from typing import Any

import numpy as np

from wildcal.core.arrays import Array, FloatArray, clip, device, is_numpy


def pad(knots: FloatArray, *columns: FloatArray, size: int | None = None) -> tuple[FloatArray, ...]:
    """Return knots padded with inf to 2**L - 1 entries, and columns padded with their last entry.

    A column may be longer than the knots (a step function has one more value than knots).
    """
    size = len(knots) if size is None else size
    missing = (1 << size.bit_length()) - 1 - len(knots)
    padded = [np.append(column, np.full(missing, column[-1])) for column in columns]
    return np.append(knots, np.full(missing, np.inf)), *padded


def stack(tables: list[tuple[FloatArray, ...]]) -> tuple[FloatArray, ...]:
    """Return padded tables of several classes, stacked to shape (n_classes, m)."""
    size = max(len(table[0]) for table in tables)
    return tuple(np.stack(part) for part in zip(*(pad(*t, size=size) for t in tables), strict=True))


def slopes(knots: FloatArray, values: FloatArray) -> FloatArray:
    """Return the slope right of each knot, 0 after the last; steps have a steep finite slope."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.diff(values) / np.diff(knots)
    return np.append(np.nan_to_num(np.clip(slope, -1e9, 1e9)), 0.0)


def count_below(xp: Any, x: Array, knots: Array) -> Array:
    """Return the number of knots at or below each entry of `x`, shape (n_samples, n_columns)."""
    if is_numpy(xp) and knots.ndim == 1:
        return np.searchsorted(knots, x, side="right")
    size = knots.shape[-1]
    table = xp.reshape(knots, (-1,))
    first = _first_entries(xp, x, knots) - 1
    found = xp.zeros_like(x, dtype=xp.arange(1).dtype)  # of JAX int32, of others int64
    step = (size + 1) // 2
    while step:  # binary search without branches: each bit of the result is one lookup
        candidate = found + step
        found = xp.where(_take(xp, table, candidate + first, x) <= x, candidate, found)
        step //= 2
    return found


def step_function(xp: Any, x: Array, knots: Array, values: Array) -> Array:
    """Return values[i], where i is the number of knots at or below `x`; knots of shape (m,)."""
    return _take(xp, values, count_below(xp, x, knots), x)


def interpolate(xp: Any, x: Array, knots: Array, values: Array, slope: Array) -> Array:
    """Return the linear interpolation of `values` at `x`, constant beyond the outer knots."""
    if is_numpy(xp) and knots.ndim == 1:
        if x.flags.f_contiguous:  # the order of the result is that of x
            return _interpolate_numpy(x.T, knots, values).T
        return _interpolate_numpy(x, knots, values)
    if is_numpy(xp) and (len(x) > 128 or len(knots) < 32):  # else a call per column is slower
        columns = [_interpolate_numpy(*column) for column in zip(x.T, knots, values, strict=True)]
        return np.stack(columns).T
    at = clip(xp, count_below(xp, x, knots) - 1, 0, knots.shape[-1] - 1)
    at = at + _first_entries(xp, x, knots)
    knot, value, rise = (
        _take(xp, xp.reshape(table, (-1,)), at, x) for table in (knots, values, slope)
    )
    return value + rise * clip(xp, x - knot, 0, None)


def _interpolate_numpy(x: Array, knots: Array, values: Array) -> Array:
    """Return np.interp(x, knots, values) for 0 <= x, in half the time where many values are flat.

    The leading bits of a positive float are the number of its cell. A table has the value of each
    cell in which the function is constant, as isotonic regressions mostly are.
    """
    if x.size < 1024:
        return np.interp(x, knots, values).astype(x.dtype, copy=False)
    integer: Any = np.int32 if x.itemsize == 4 else np.int64
    n_bits, bias = (23, 127) if x.itemsize == 4 else (52, 1023)
    shift, first = n_bits - 6, (bias - 24) << 6  # 64 cells in each of the octaves from 2**-24 to 1
    cells = np.arange(first, (bias << 6) + 1, dtype=integer) << shift
    edges = cells.view(x.dtype)
    edges[0] = 0.0
    count = np.searchsorted(knots, edges, side="right")
    low = np.clip(count - 1, 0, None)
    high = np.clip(np.append(count[1:], count[-1]), None, len(knots) - 1)
    flat = (high - low <= 1) & (values[low] == values[high])
    table = np.where(flat, values[low], np.nan)
    result = table.take((x.view(integer) >> shift) - first, mode="clip")
    other = np.isnan(result)
    result[other] = np.interp(x[other], knots, values)
    return result


def _first_entries(xp: Any, x: Array, knots: Array) -> Array:
    """Return where the table of each column begins in the flattened tables."""
    if knots.ndim == 1:
        return 0
    return xp.arange(knots.shape[0], device=device(x)) * knots.shape[1]


def _take(xp: Any, table: Array, index: Array, like: Array) -> Array:
    """Return table[index]; the number of samples may be unknown, as in a traced graph."""
    return xp.reshape(xp.take(table, xp.reshape(index, (-1,))), (-1, like.shape[-1]))
