"""Text tables of numbers and plain words, without pyarrow."""

import csv
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from numpy.typing import NDArray

from wildcal._old.io.tables.objects import as_object_column
from wildcal._old.io.tables.source import Arrays

_WHOLE: Final = re.compile(r"-?\d{1,18}")
_REAL: Final = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# Words that pyarrow reads as truth values or as gaps.
_OTHER: Final = {"true", "false", "nan", "null", "na", "n/a"}


def plain_columns(
    lines: Iterable[str], delimiter: str, names: Sequence[str], *, header: bool
) -> Arrays | None:
    """Return the columns if each is numbers alone or plain words alone, as pyarrow reads them.

    None if there is anything else: a gap, a date, a truth value, space around a cell. What
    is told as words here begins with a letter.

    >>> columns = plain_columns(["z,label", "0.5,cat", "2,dog"], ",", ["z", "label"], header=True)
    >>> columns["z"], columns["label"]
    (array([0.5, 2. ]), array(['cat', 'dog'], dtype=object))
    >>> plain_columns(["z,label", "0.5,", "2,dog"], ",", ["z", "label"], header=True) is None
    True
    """
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    if any(len(row) != len(names) for row in rows):
        return None  # a quote behind a space
    cells = zip(*rows[int(header) :], strict=True)
    columns = {name: _column(column) for name, column in zip(names, cells, strict=True)}
    found = {name: column for name, column in columns.items() if column is not None}
    return found if len(found) == len(columns) else None


def _column(cells: Sequence[str]) -> NDArray[Any] | None:
    if all(_WHOLE.fullmatch(cell) for cell in cells):
        return as_object_column([int(cell) for cell in cells])
    if all(_REAL.fullmatch(cell) for cell in cells):
        return as_object_column([float(cell) for cell in cells])
    if all(_is_word(cell) for cell in cells):
        return as_object_column(list(cells))
    return None


def _is_word(cell: str) -> bool:
    return cell[:1].isalpha() and cell == cell.strip() and cell.lower() not in _OTHER
