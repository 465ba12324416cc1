"""Columns that may be too long to hold: read, and made of others, a piece at a time.

A column of `Rows` is an array, or stands somewhere else and is read when a piece of it is asked
for. What a fit makes of columns has the same two forms, so that a fit is written once: `derived` of
columns, `RowValues` of logits and columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Column, FloatArray, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import Combine, added, joined, map_blocks, map_pieces, running

# Rows of columns alone that are looked at together.
PIECE_ROWS: Final = 1 << 20


def in_memory(*columns: Source | Column | None) -> bool:
    """Return whether all of these are arrays, those that are None aside."""
    return all(column is None or isinstance(column, np.ndarray) for column in columns)


def portable(*columns: Source | Column) -> bool:
    """Return whether one of these is read by other processes; the arrays beside it go there."""
    return any(getattr(column, "portable", False) for column in columns)


@dataclass(frozen=True, slots=True)
class Derived:
    """A column made of others when it is read."""

    make: Callable[..., NDArray[Any]]
    of: tuple[Column, ...]

    @property
    def portable(self) -> bool:
        """Whether it can be read by other processes."""
        return portable(*self.of)

    @property
    def offset(self) -> int:
        """Where it begins in the rows that it is read from, as a `Span` does."""
        return max(getattr(column, "offset", 0) for column in self.of)

    def __len__(self) -> int:
        return len(self.of[0])

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return some consecutive rows, or every so many."""
        return self.make(*(column[rows] for column in self.of))


@dataclass(frozen=True, slots=True)
class Changed:
    """Logits that are changed, row by row, when they are read."""

    logits: Source

    @property
    def portable(self) -> bool:
        """Whether it can be read by other processes."""
        return portable(self.logits)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and classes."""
        return self.logits.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the logits."""
        return self.logits.dtype

    def __len__(self) -> int:
        return len(self.logits)


def derived(make: Callable[..., NDArray[Any]], *columns: Column) -> Any:
    """Return make(columns), row by row: at once where all are arrays, else when it is read.

    >>> derived(lambda y, w: w * (y >= 0), np.array([1, -1]), np.array([2.0, 3.0]))
    array([2., 0.])
    """
    return make(*columns) if in_memory(*columns) else Derived(make, columns)


def equal_weights(y: Column, weight: Column | None) -> Any:
    """Return the weights, ones where there are none."""
    return derived(lambda labels: np.ones(len(labels)), y) if weight is None else weight


def map_columns(
    function: Callable[..., Any], *columns: Column, combine: Combine = added, rows: int = PIECE_ROWS
) -> Any:
    """Return what `combine` makes of function(pieces of the columns), in the order of the rows."""

    def work(piece: slice) -> Any:
        return function(*(column[piece] for column in columns))

    return map_pieces(columns[0], work, rows, combine)


def total(column: Column) -> float:
    """Return the sum of a column, added piece by piece."""
    return float(map_columns(lambda values: values.sum(), column))


@running
def added_counts(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the sum of counts, the last axis as long as the longest: no entry is no count.

    >>> added_counts([np.array([1, 2]), np.array([1, 1, 1])])
    array([2, 3, 1])
    """
    width = max(part.shape[-1] for part in parts)
    total = np.zeros((*parts[0].shape[:-1], width), parts[0].dtype)
    for part in parts:
        total[..., : part.shape[-1]] += part
    return total


def loaded(column: Column | None) -> Any:
    """Return a column as an array."""
    return None if column is None else np.asarray(column[:])


RowFunction: TypeAlias = Callable[..., FloatArray]
"""Numbers for each row of a block, from the block and pieces of columns."""


@dataclass(frozen=True, slots=True)
class RowValues:
    """Numbers for each row, made of its logits: kept, or made anew in every pass."""

    make: RowFunction
    beside: tuple[Column, ...] = ()
    kept: FloatArray | None = None

    def __call__(self, block: Block) -> FloatArray:
        """Return the numbers of the rows of a block."""
        if self.kept is not None:
            return self.kept[block.rows]
        return self.make(block, *(column[block.rows] for column in self.beside))

    def every(self, step: int) -> "RowValues":
        """Return those of every so many rows."""
        rows = slice(None, None, step)
        beside = tuple(np.ascontiguousarray(column[rows]) for column in self.beside)
        # Products round by where numbers lie: a copy lies where those read from a source do.
        kept = None if self.kept is None else np.ascontiguousarray(self.kept[rows])
        return RowValues(self.make, beside, kept)


def kept(values: FloatArray) -> RowValues:
    """Return numbers that are there already."""
    return RowValues(lambda block: values[block.rows], (), values)


def row_values(logits: Source, make: RowFunction, *beside: Column) -> RowValues:
    """Return numbers for each row: kept where the logits are an array, which has room for them."""
    values = RowValues(make, beside)
    if not in_memory(logits):
        return values
    # Not joined of blocks: those of millions of rows come from the system page by page.
    one: FloatArray = map_blocks(logits[:1], values, joined)
    found = np.empty((len(logits), *one.shape[1:]))

    def write(block: Block) -> None:
        found[block.rows] = values(block)

    map_blocks(logits, write)
    return RowValues(make, beside, found)
