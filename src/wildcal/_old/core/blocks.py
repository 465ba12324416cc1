"""The one engine seam: a function of every block of rows, and what becomes of its results.

Every pass over an N x K matrix happens here, in blocks small enough to stay in the cache, spread
over a small thread pool, or over a cluster. Where blocks begin and end depends on the number of
classes alone, and results are combined in one order: within groups of neighboring blocks, then
group by group, each in the order of the rows. So a sum has the same bits for any number of threads,
workers or shards. Nothing of size N x K is ever allocated except the result the caller asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final, TypeAlias, TypeVar, overload

import numpy as np

from wildcal._old.core.arrays import Column, Source, working_dtype
from wildcal._old.core.block import CLASSES_FIRST_BELOW, Block, Scratch
from wildcal._old.core.engine import engine_of, watched
from wildcal._old.core.one_thread import one_thread
from wildcal._old.core.parallel import run_parts, thread_count

# Entries of a block: small enough for the cache that a core has to itself or its share of the
# next one, large enough that handing Python's lock from thread to thread between two NumPy calls
# does not count: with a tenth of it, two threads were slower than one. Classes-first blocks are
# walked class by class and want fewer. `make bench` shows the effect of a change.
BLOCK_ELEMENTS = 400_000
CLASSES_FIRST_ELEMENTS = 100_000
# Below this many entries starting threads costs more than it saves.
_THREADING_ELEMENTS = 1 << 18

# Blocks whose results are combined before those of their neighbors, the least that a task of a
# cluster does: 6 to 26 MB of logits. Changing it changes the last bits of sums over more blocks.
GROUP_BLOCKS: Final = 16

# Logits near the largest float overflow to -inf when shifted or scaled, which is what we want of
# them; 0 * -inf is looked after. The setting is per thread, so it is made where the work is done.
_SILENT: Final[Any] = {"over": "ignore", "invalid": "ignore"}

# Groups of each thread that are done before their results are combined.
_AHEAD: Final = 4

Result = TypeVar("Result")
Combined = TypeVar("Combined")
Combine: TypeAlias = Callable[[Sequence[Any]], Any]


def block_rows(n_classes: int) -> int:
    """Return how many rows a block has, the last one of a source aside."""
    elements = CLASSES_FIRST_ELEMENTS if n_classes < CLASSES_FIRST_BELOW else BLOCK_ELEMENTS
    return max(1, elements // n_classes)


def partly(combine: Combine) -> Combine:
    """Mark what may combine neighbors first, and then what it made of them."""
    combine.partly = True  # type: ignore[attr-defined]
    return combine


def running(combine: Combine) -> Combine:
    """Mark what may combine each result with what it made of all before, so that none is kept."""
    combine.running = True  # type: ignore[attr-defined]
    return partly(combine)


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk over rows in steps of equal length: all it takes to do a part of it, anywhere."""

    n_rows: int
    rows: int
    """Of a step; the last one may be shorter."""
    begin: Callable[[], Callable[[slice], Any]]
    """Makes what one thread calls with each of its steps."""
    combine: Combine
    offset: int = 0
    """Where its first row stands in the source that it is a span of."""

    @property
    def steps(self) -> int:
        """How many there are."""
        return -(-self.n_rows // self.rows)

    @property
    def groups(self) -> int:
        """How many groups of steps there are."""
        return -(-self.steps // GROUP_BLOCKS)

    def group(self, number: int) -> Any:
        """Return what is left of one group."""
        first = number * GROUP_BLOCKS
        work = self.begin()
        results: list[Any] = []
        with np.errstate(**_SILENT), one_thread():
            for i in range(first, min(first + GROUP_BLOCKS, self.steps)):
                results.append(work(self._step(i)))
                if hasattr(self.combine, "running"):  # sums may be large, and 16 of them too large
                    results = [self.combine(results)]
        return self.shortened(results)

    def shortened(self, results: list[Any]) -> Any:
        """Return the results of a group combined, if that can be done group by group."""
        return self.combine(results) if hasattr(self.combine, "partly") else results

    def end(self, groups: Iterable[Any]) -> Any:
        """Return the results of all groups combined, in their order."""
        groups = watched(groups, self.groups)
        if hasattr(self.combine, "running"):
            return reduce(lambda before, group: self.combine([before, group]), groups)
        if hasattr(self.combine, "partly"):
            return self.combine(list(groups))
        return self.combine([result for group in groups for result in group])

    def _step(self, i: int) -> slice:
        return slice(i * self.rows, min((i + 1) * self.rows, self.n_rows))

    def in_threads(self, threads: int) -> Any:
        """Return the results of all groups combined, the work done in threads of this process."""
        if threads == 1 or self.groups >= 2 * threads:
            return self.end(self._groups(threads))
        results: list[Any] = [None] * self.steps

        def run_steps(numbers: Sequence[int]) -> None:
            work = self.begin()
            with np.errstate(**_SILENT):
                for i in numbers:
                    results[i] = work(self._step(i))

        run_parts(run_steps, range(self.steps), threads)
        parts = [results[i : i + GROUP_BLOCKS] for i in range(0, self.steps, GROUP_BLOCKS)]
        return self.end([self.shortened(part) for part in parts])

    def _groups(self, threads: int) -> Iterator[Any]:
        """Yield the results of all groups, in their order; a few for each thread are done ahead."""
        ahead = 1 if threads == 1 else _AHEAD * threads
        for first in range(0, self.groups, ahead):
            numbers = range(first, min(first + ahead, self.groups))
            done: dict[int, Any] = {}

            def run_groups(mine: Sequence[int], done: dict[int, Any] = done) -> None:
                for number in mine:
                    done[number] = self.group(number)

            run_parts(run_groups, numbers, threads)
            for number in numbers:
                yield done.pop(number)


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
    combine: Combine = list,
) -> Any:
    """Return what `combine` makes of function(block) of every block, in the order of the rows.

    Blocks are independent and may run in threads, or on other machines where the source can be read
    there. What a function returns must be its own: the buffers of a block serve the next one.
    `joined` and `added` combine per-row arrays and sums.
    """
    n_rows, n_classes = source.shape
    rows = block_rows(n_classes)
    engine = engine_of(source)
    if n_rows <= rows and engine is None:  # a service asks about one row at a time: no loop
        with np.errstate(**_SILENT):
            scratch = Scratch(n_rows, n_classes, working_dtype(source.dtype))
            return combine([function(Block(source, 0, n_rows, scratch))])
    rows = min(n_rows, rows)
    begin = partial(_begin_blocks, source, function, rows)
    walk = Walk(n_rows, rows, begin, combine, getattr(source, "offset", 0))
    if engine is not None:
        return walk.end(engine.run(walk, source))
    return walk.in_threads(thread_count() if n_rows * n_classes >= _THREADING_ELEMENTS else 1)


def _begin_blocks(
    source: Source, function: Callable[[Block], Any], rows: int
) -> Callable[[slice], Any]:
    scratch = Scratch(rows, source.shape[1], working_dtype(source.dtype))
    return lambda piece: function(Block(source, piece.start, piece.stop, scratch))


def map_pieces(
    column: Source | Column, function: Callable[[slice], Any], rows: int, combine: Combine
) -> Any:
    """Return what `combine` makes of function(slice) of pieces of so many rows, one by one.

    For work that is not done on blocks. `column` says how many rows there are, and where they are.
    """
    begin, offset = partial(_begin_pieces, function), getattr(column, "offset", 0)
    walk = Walk(len(column), rows, begin, combine, offset)
    engine = engine_of(column)
    return walk.in_threads(1) if engine is None else walk.end(engine.run(walk, column))


def _begin_pieces(function: Callable[[slice], Any]) -> Callable[[slice], Any]:
    return function


@partly
def joined(parts: Sequence[Any]) -> Any:
    """Return per-row arrays, or tuples of them, of all blocks one after the other."""
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(joined(column) for column in zip(*parts, strict=True))
    return first if len(parts) == 1 else np.concatenate(parts)


@running
def added(parts: Sequence[Any]) -> Any:
    """Return the sum of sums, or tuples of them, added in the order of the rows."""
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(added(column) for column in zip(*parts, strict=True))
    total = first
    for part in parts[1:]:
        total = total + part
    return total
