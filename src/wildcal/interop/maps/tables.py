"""Step and piecewise-linear functions as tables that are searched by halving.

The loop runs over the bits of the largest length, so a table of 4,000 thresholds takes 12 rounds
of one look-up each, and nothing larger than the values themselves is ever made.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.interop.maps.ops import Ops, Tensor

# Between two thresholds closer than this a slope would overflow.
_STEEPEST = 1e300


def last_below(ops: Ops, table: Tensor, x: Tensor, *, or_equal: bool = False) -> Tensor:
    """Return the position of the last entry of an increasing table below x; -1 if there is none."""
    n = ops.length(table)
    return last_in_part(ops, table, x, 0, n - 1, n.bit_length(), or_equal=or_equal)


def last_in_part(
    ops: Ops,
    table: Tensor,
    x: Tensor,
    first: Tensor | int,
    last: Tensor | int,
    rounds: int,
    *,
    or_equal: bool,
) -> Tensor:
    """Return the same where each x has its own part of the table, of fewer than 2**rounds entries.

    If there is none, it is the position before the first.
    """
    compare = ops.less_equal if or_equal else ops.less
    before = ops.constant(np.full((1, 1), -1)) if isinstance(first, int) else first - 1
    found = before
    for bit in reversed(range(rounds)):
        # Where a part is shorter, its end is tried.
        guess = ops.minimum(found + (1 << bit), last)
        found = ops.where(compare(ops.take(table, guess), x), guess, found)
    return found


def slopes(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
    """Return the slope to the right of each threshold; beyond the last one it is zero."""
    with np.errstate(over="ignore"):
        steep = np.diff(y) / np.diff(x)
    return np.append(np.clip(steep, -_STEEPEST, _STEEPEST), 0.0)


def interpolate(ops: Ops, x: Tensor, tables: tuple[Tensor, Tensor, Tensor], at: Tensor) -> Tensor:
    """Return y + slope * (x - threshold) at the last threshold that is not above x.

    `at` is its position; left of the first threshold it is that one's, and y holds.
    """
    thresholds, values, steep = tables
    beyond = ops.maximum(x - ops.take(thresholds, at), 0.0)
    return ops.take(values, at) + ops.take(steep, at) * beyond
