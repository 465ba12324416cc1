"""Text tables: numbers with NumPy alone, with plain words if need be; all else through pyarrow."""

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.tables.source import Source, arrays_source, bare_source, check_names, damage
from wildcal._old.io.tables.words import plain_columns

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """How a text table is written, read off its first two lines."""

    encoding: str
    delimiter: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    header: bool
    decimal: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; their numbers where there is no header."""
        stripped = tuple(cell.strip() for cell in self.first)
        return stripped if self.header else tuple(str(k) for k in range(len(self.first)))

    @property
    def plain(self) -> bool:
        """Whether the second line is numbers alone."""
        return self.decimal == "." and all(is_number(cell) for cell in self.second)


def read_text(data: bytes, title: str, ending: str) -> Source:
    """Return the columns of a table in text, such as .csv and .tsv."""
    layout = look(data, title, ending)
    if layout.header:
        check_names(layout.names, title)
    values = _numbers(data, layout) if layout.plain else None
    notes = () if layout.encoding != "latin-1" else ("read as latin-1: it is not UTF-8",)
    if values is not None and values.shape[1] == len(layout.first):
        if not layout.header:
            return bare_source(title, values, notes)
        columns = {name: values[:, k] for k, name in enumerate(layout.names)}
        return arrays_source(title, columns, columnar=True, notes=notes)
    _check_cells(data, layout, title)
    arrays = None
    if layout.decimal == "." and find_spec("pyarrow") is None:
        lines = _lines(data, layout.encoding)
        arrays = plain_columns(lines, layout.delimiter, layout.names, header=layout.header)
    if arrays is None:
        from wildcal._old.io.tables.arrow import read_arrow_csv

        with damage(title, ending):
            arrays = read_arrow_csv(data, layout, title)
    return arrays_source(title, arrays, columnar=True, notes=notes)


def look(data: bytes, title: str, ending: str) -> Layout:
    """Return how the table is written."""
    encoding = _encoding(data)
    if b"\0" in data[:_PIECE] and encoding != "utf-16":
        raise FileFormatError(f"cannot read {title}: it is no text, as a {ending} file must be.")
    head = [line for _, line in zip(range(50), _lines(data, encoding), strict=False)]
    written = [line for line in head if line.strip()]
    if not written:
        raise FileFormatError(f"cannot read {title}: it is empty.")
    delimiter = "\t" if ending == ".tsv" else _delimiter(written[0])
    rows = csv.reader(written, delimiter=delimiter, skipinitialspace=True)
    try:
        first, second = next(rows), next(rows, None)
    except csv.Error:
        raise FileFormatError(f"cannot read {title}: not a whole {ending} file.") from None
    # The columns of a data frame without names are counted.
    counted = len(first) > 1 and first == [str(k) for k in range(len(first))]
    comma = delimiter != "," and any(_is_comma_number(cell) for cell in second or first)
    decimal = "," if comma else "."
    numbers = all(is_number(cell) or (comma and _is_comma_number(cell)) for cell in first)
    header = counted or not numbers
    if header and second is None:
        raise FileFormatError(f"cannot read {title}: it has column names and no rows.")
    return Layout(encoding, delimiter, tuple(first), tuple(second or first), header, decimal)


def _encoding(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _PIECE):
            decoder.decode(data[start : start + _PIECE])
    except UnicodeDecodeError:
        return "latin-1"  # in which every byte means something
    return "utf-8-sig"


def _lines(data: bytes, encoding: str) -> Iterator[str]:
    return io.TextIOWrapper(io.BytesIO(data), encoding, errors="replace", newline=None)


def _delimiter(line: str) -> str:
    outside = "".join(line.split('"')[::2])  # names in quotes may hold anything
    return next((mark for mark in "\t;,|" if mark in outside), ",")


def _numbers(data: bytes, layout: Layout) -> NDArray[Any] | None:
    """Return the matrix of a table of numbers, or None if something in it is no number."""
    try:
        return np.loadtxt(
            _lines(data, layout.encoding),
            delimiter=layout.delimiter,
            skiprows=int(layout.header),
            ndmin=2,
            comments=None,
        )
    except ValueError:
        return None


def _check_cells(data: bytes, layout: Layout, title: str) -> None:
    """Raise for the first line that has more or fewer cells than the first."""
    rows = csv.reader(
        _lines(data, layout.encoding), delimiter=layout.delimiter, skipinitialspace=True
    )
    try:
        for row in rows:
            if row and len(row) != len(layout.first):
                raise FileFormatError(
                    f"cannot read {title}: line {rows.line_num} has {len(row)} cells, the first"
                    f" line {len(layout.first)}. Was it cut short, or is a name with a"
                    f" {layout.delimiter!r} in it not in quotes?"
                )
    except csv.Error:
        raise FileFormatError(
            f"cannot read {title}: line {rows.line_num} is not whole. Is a quote not closed?"
        ) from None


def first_word(data: bytes, layout: Layout) -> str:
    """Return where the first cell stands that is no number, for the message that asks for more."""
    rows = csv.reader(
        _lines(data, layout.encoding), delimiter=layout.delimiter, skipinitialspace=True
    )
    for line, row in enumerate(rows):
        if row and not (layout.header and line == 0):
            for name, cell in zip(layout.names, row, strict=False):
                if not is_number(cell):
                    return f"line {rows.line_num} has {cell[:40]!r} in column {name!r}"
    return "some cells are no numbers"


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_comma_number(cell: str) -> bool:
    return cell.count(",") == 1 and is_number(cell.replace(",", "."))
