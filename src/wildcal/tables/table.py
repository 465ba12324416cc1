"""Table model: columns, cells with their numbers, notes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

ABSENT: Final = "-"
"""Text of a cell without a number."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    value: float | None = None
    """The number in full precision, None for text."""
    note: str = ""
    """Shown after the text, such as an interval."""
    is_best: bool = False
    """Whether the number is the best of its column or row."""

    def __str__(self) -> str:
        return f"{self.text} {self.note}".strip()


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    head: str
    is_number: bool = True
    """Numbers are aligned right."""
    priority: int = 0
    """Where a terminal is too narrow, columns of the highest number are left out first; those of 0
    never."""


@dataclass(frozen=True)
class Table:
    """Columns, rows and notes."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, title: str, columns: Sequence[tuple[Column, Sequence[Cell]]], notes: Sequence[str]
    ) -> "Table":
        """Return the table of columns with their cells."""
        rows = zip(*(cells for _, cells in columns), strict=True)
        return cls(title, tuple(column for column, _ in columns), tuple(rows), tuple(notes))

    @property
    def heads(self) -> list[str]:
        """The heads of all columns."""
        return [column.head for column in self.columns]

    def select(self, heads: Sequence[str]) -> "Table":
        """Return the table with some of its columns, in their order."""
        kept = [i for i, column in enumerate(self.columns) if column.head in heads]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in kept), rows=rows)


def number(
    value: float | None,
    interval: tuple[float, float] | None = None,
    *,
    percent: bool = True,
    digits: int | None = None,
    sign: bool = False,
    note: str = "",
) -> Cell:
    """Return a cell of a number with its interval; "-" without a number.

    Parameters
    ----------
    percent
        Whether the number is a fraction, to be shown in per cent.
    digits
        Digits after the point; by default 2 in per cent, otherwise 4.
    sign
        Whether positive numbers have a plus sign.
    note
        Shown after the interval.

    Examples
    --------
    >>> print(number(0.0865, (0.0793, 0.0881)), number(0.5, percent=False), number(float("nan")))
    8.65 (7.93 to 8.81) 0.5000 -
    """
    if value is None or math.isnan(value):
        return Cell(ABSENT)
    scale = 100 if percent else 1
    digits = (2 if percent else 4) if digits is None else digits
    form = f"{'+' if sign else ''}.{digits}f"
    if interval is not None:
        ends = " to ".join(f"{scale * end:{form}}" for end in interval)
        note = f"({ends}) {note}".strip()
    return Cell(f"{scale * value:{form}}", value, note)


def with_best(cells: Sequence[Cell], better: Literal["lower", "higher"] | None) -> list[Cell]:
    """Return cells with the best number marked, and those that are shown as the same number.

    Examples
    --------
    >>> [cell.is_best for cell in with_best([number(0.2), number(0.1), number(None)], "lower")]
    [False, True, False]
    """
    values = [float(cell.text) for cell in cells if cell.value is not None]
    if better is None or not values:
        return list(cells)
    best = min(values) if better == "lower" else max(values)
    return [
        replace(cell, is_best=cell.value is not None and float(cell.text) == best) for cell in cells
    ]
