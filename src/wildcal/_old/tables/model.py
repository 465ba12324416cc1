"""A table before it is text: columns, cells with their numbers, notes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

ABSENT: Final = "-"
"""What stands where there is no number."""
BEST, SECOND = 1, 2


@dataclass(frozen=True, slots=True)
class Cell:
    """What one place of a table shows."""

    text: str
    value: float | None = None
    """The number in full precision, where it is one."""
    more: str = ""
    """What stands beside it in paler letters, such as the interval."""
    rank: int | None = None
    """1 for the best, 2 for the second best of those it is compared with."""

    def __str__(self) -> str:
        return f"{self.text} {self.more}" if self.more else self.text


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column; numbers stand at the right."""

    head: str
    is_number: bool = True
    spare: int | None = None
    """Where there is no room, columns are left out in this order; None for never."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, rows and what has to be said about them."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    best_row: int | None = None
    """The row to make stand out."""

    @property
    def heads(self) -> list[str]:
        """The heads of all columns."""
        return [column.head for column in self.columns]

    def texts(self) -> list[list[str]]:
        """Return what all cells show."""
        return [[str(cell) for cell in row] for row in self.rows]


def words(text: str) -> Cell:
    """Return a cell of text."""
    return Cell(text)


def number(
    value: float | None,
    interval: tuple[float, float] | None = None,
    *,
    percent: bool = True,
    digits: int | None = None,
    sign: bool = False,
    more: str = "",
) -> Cell:
    """Return a number as all tables show it, with its interval; "-" where there is none.

    Parameters
    ----------
    percent
        Whether it is a fraction to be shown in percent.
    digits
        By default 2 in percent, otherwise 4.
    sign
        Whether a plus stands before what is not negative.

    Examples
    --------
    >>> print(number(0.0865, (0.0793, 0.0881)), number(0.5, percent=False), number(float("nan")))
    8.65 (7.93 to 8.81) 0.5000 -
    """
    if value is None or math.isnan(value):
        return Cell(ABSENT)
    scale = 100 if percent else 1
    digits = (2 if percent else 4) if digits is None else digits
    if interval is not None:
        low, high = (f"{scale * end:.{digits}f}" for end in interval)
        more = f"({low} to {high}{f', {more}' if more else ''})"
    return Cell(f"{scale * value:{'+' if sign else ''}.{digits}f}", value, more)


def small_digits(values: Sequence[float]) -> int | None:
    """Return how many digits show fractions that are all below one percent; None for the usual.

    Three that count, of the largest.

    >>> small_digits([0.00131, 0.00128]), small_digits([0.02, 0.001])
    (3, None)
    """
    highest = 100 * max((v for v in values if not math.isnan(v)), default=0.0)
    return 2 - math.floor(math.log10(highest)) if 0 < highest < 1 else None


def ranked(
    cells: Sequence[Cell], better: Literal["lower", "higher"] | None, *, places: int = BEST
) -> list[Cell]:
    """Return cells with those marked that are best; what looks equal is equal.

    >>> [cell.rank for cell in ranked([number(0.2), number(0.1), number(None)], "lower")]
    [None, 1, None]
    """
    shown = [None if cell.value is None else float(cell.text) for cell in cells]
    different = sorted({v for v in shown if v is not None}, reverse=better == "higher")
    if better is None:
        return list(cells)
    place = {value: i for i, value in enumerate(different[:places], BEST)}
    return [
        replace(cell, rank=None if value is None else place.get(value))
        for cell, value in zip(cells, shown, strict=True)
    ]
