"""Consecutive rows of a source or of a column, as one of their own; nothing is read for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.columns import Derived, portable


@dataclass(frozen=True, slots=True)
class Span:
    """Some consecutive rows of a source or a column that is read piece by piece."""

    of: Any
    offset: int
    """The first of them. A walk over a span says so to its engine."""
    length: int

    @property
    def portable(self) -> bool:
        """Whether it can be read by other processes."""
        return portable(self.of)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and classes."""
        return (self.length, *self.of.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what a slice returns."""
        found: np.dtype[Any] = self.of.dtype
        return found

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return some of the rows."""
        start, stop, step = rows.indices(self.length)
        found: NDArray[Any] = self.of[self.offset + start : self.offset + max(start, stop) : step]
        return found


def span(column: Any, start: int, stop: int) -> Any:
    """Return the rows from `start` up to `stop`: a view of an array, else a `Span`.

    >>> span(np.arange(5), 1, 3)
    array([1, 2])
    """
    if column is None or isinstance(column, np.ndarray):
        return None if column is None else column[start:stop]
    if isinstance(column, Derived):
        return Derived(column.make, tuple(span(one, start, stop) for one in column.of))
    if isinstance(column, Span):
        return Span(column.of, column.offset + start, stop - start)
    return Span(column, start, stop - start)
