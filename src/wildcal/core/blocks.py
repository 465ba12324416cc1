"""The one engine seam: a function of every block of rows, and what becomes of its results.

Every pass over an N x K matrix happens here, in blocks small enough to stay in the cache, spread
over a small thread pool. Where blocks begin and end depends on the number of classes alone, and
results are combined in the order of the rows, so a sum has the same bits for any number of threads.
Nothing of size N x K is ever allocated except the result the caller asked for.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from wildcal.core.arrays import Source, working_dtype
from wildcal.core.block import CLASSES_FIRST_BELOW, Block, Scratch
from wildcal.core.parallel import run_parts, thread_count

# Entries of a block: small enough for the cache that a core has to itself or its share of the
# next one, large enough that handing Python's lock from thread to thread between two NumPy calls
# does not count: with a tenth of it, two threads were slower than one. Classes-first blocks are
# walked class by class and want fewer. `make bench` shows the effect of a change.
BLOCK_ELEMENTS = 400_000
CLASSES_FIRST_ELEMENTS = 100_000
# Below this many entries starting threads costs more than it saves.
_THREADING_ELEMENTS = 1 << 18

Result = TypeVar("Result")
Combined = TypeVar("Combined")


def block_rows(n_classes: int) -> int:
    """Return how many rows a block has, the last one of a source aside."""
    elements = CLASSES_FIRST_ELEMENTS if n_classes < CLASSES_FIRST_BELOW else BLOCK_ELEMENTS
    return max(1, elements // n_classes)


@overload
def map_blocks(source: Source, function: Callable[[Block], Result]) -> list[Result]: ...
@overload
def map_blocks(
    source: Source,
    function: Callable[[Block], Result],
    combine: Callable[[Sequence[Result]], Combined],
) -> Combined: ...
def map_blocks(
    source: Source,
    function: Callable[[Block], Any],
    combine: Callable[[Sequence[Any]], Any] = list,
) -> Any:
    """Return what `combine` makes of function(block) of every block, in the order of the rows.

    Blocks are independent and may run in threads. What a function returns must be its own: the
    buffers of a block serve the next one. `joined` and `added` combine per-row arrays and sums.
    """
    n_rows, n_classes = source.shape
    dtype = working_dtype(source.dtype)
    rows = block_rows(n_classes)
    if n_rows <= rows:  # a service asks about one row at a time: no loop, no threads
        with np.errstate(over="ignore", invalid="ignore"):
            return combine([function(Block(source, 0, n_rows, Scratch(n_rows, n_classes, dtype)))])
    starts = range(0, n_rows, rows)
    results: list[Any] = [None] * len(starts)

    def run(numbers: Sequence[int]) -> None:
        scratch = Scratch(rows, n_classes, dtype)
        # Logits near the largest float overflow to -inf when shifted or scaled, which is what we
        # want of them; 0 * -inf is looked after. The setting is per thread, so it is made here.
        with np.errstate(over="ignore", invalid="ignore"):
            for i in numbers:
                start = starts[i]
                results[i] = function(Block(source, start, min(start + rows, n_rows), scratch))

    if n_rows * n_classes < _THREADING_ELEMENTS:
        run(range(len(starts)))
    else:
        run_parts(run, range(len(starts)), thread_count())
    return combine(results)


def joined(parts: Sequence[Any]) -> Any:
    """Return per-row arrays, or tuples of them, of all blocks one after the other."""
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(joined(column) for column in zip(*parts, strict=True))
    return first if len(parts) == 1 else np.concatenate(parts)


def added(parts: Sequence[Any]) -> Any:
    """Return the sum of sums, or tuples of them, added in the order of the rows."""
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(added(column) for column in zip(*parts, strict=True))
    total = first
    for part in parts[1:]:
        total = total + part
    return total
