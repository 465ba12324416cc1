"""Rows from a pipe as they come: JSON lines, or .npy arrays one after the other."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.cli.stream_scores import Scores
from wildcal._old.core.arrays import FloatArray, Logits
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.suite.arrays import read_header

# Bytes asked for at once; a pipe gives what is there.
_READ = 1 << 16
# A row of a million classes with 17 digits each has about this many bytes.
_LONGEST_LINE = 1 << 25
# Bytes of an array that are looked at together, whatever its header claims.
_PIECE_BYTES = 1 << 20
_SCORE_TYPES = ("<f2", "<f4", "<f8")

BadRow = Callable[[str], None]
"""Told what is wrong with a row and where; it raises, or the row is left out."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that were there at one time, with what stood beside their scores."""

    logits: Logits
    others: list[dict[str, Any]]
    where: str
    """Which rows these are, in words."""


def read_json_lines(file: IO[bytes], scores: Scores, bad: BadRow) -> Iterator[Batch]:
    """Yield the rows of JSON lines, each a list of scores or an object with such a list.

    Rows before a bad one are yielded before it is told.
    """
    number = 0
    for lines in _lines(file):
        rows: list[FloatArray] = []
        others: list[dict[str, Any]] = []
        first = number + 1
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                row, other = _parse(line, scores)
            except ValueError as error:
                if rows:
                    yield Batch(np.array(rows), others, f"lines {first} to {number - 1}")
                    rows, others, first = [], [], number + 1
                bad(f"line {number}: {error}")
                continue
            rows.append(row)
            others.append(other)
        if rows:
            yield Batch(np.array(rows), others, f"lines {first} to {number}")


def _lines(file: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield the whole lines that are there, as soon as there are some."""
    read = getattr(file, "read1", file.read)
    parts: list[bytes] = []  # of a line whose end has not come yet
    length = 0
    while block := read(_READ):
        *whole, rest = block.split(b"\n")
        if whole:
            yield [b"".join([*parts, whole[0]]), *whole[1:]]
            parts, length = [], 0
        parts.append(rest)
        length += len(rest)
        if length > _LONGEST_LINE:
            raise FileFormatError(f"a line has more than {_LONGEST_LINE:,} bytes; is this JSON?")
    if length:
        yield [b"".join(parts)]


def _parse(line: bytes, scores: Scores) -> tuple[FloatArray, dict[str, Any]]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):  # also what is not UTF-8, or nested without end
        raise ValueError("it is not JSON.") from None
    other: dict[str, Any] = {}
    kind, words = scores.kind, scores.width_words
    if isinstance(document, dict):
        if kind not in document:
            raise ValueError(f'an object must have "{kind}".')
        other, document = document, document.pop(kind)
    if not isinstance(document, list) or not all(type(v) in (int, float) for v in document):
        raise ValueError(f"{kind} must be a list of {words} numbers.")
    if len(document) not in scores.widths:
        raise ValueError(f"{kind} must be {words} numbers, as in fit, got {len(document)}.")
    try:
        row = np.array(document, np.float64)
    except OverflowError:  # a whole number of more than 308 digits
        row = np.full(len(document), np.inf)
    found, wrong = scores.read(row[None])
    if wrong:
        raise ValueError(wrong[0])
    _check_copied(other)
    return found[0], other


def _check_copied(other: dict[str, Any]) -> None:
    """Raise if a field could not be written again: Python reads 1e999 and NaN, JSON has neither."""
    try:
        json.dumps(other, allow_nan=False)
    except (ValueError, RecursionError):
        raise ValueError("its other fields must be finite.") from None


def read_npy_arrays(file: IO[bytes], scores: Scores, bad: BadRow) -> Iterator[Batch]:
    """Yield the rows of .npy arrays that follow one another, as `np.save` writes them."""
    number = 0
    while head := file.read(1):
        number += 1
        where = f"array {number}"
        try:
            header = read_header(_Begun(head, file))
        except ValueError as error:
            raise FileFormatError(f"{where} of the input is not a .npy array: {error}.") from error
        if header.descr not in _SCORE_TYPES:
            raise FileFormatError(f"{where} must be of float16, 32 or 64, got {header.descr!r}.")
        if len(header.shape) != 2 or header.shape[1] not in scores.widths:
            raise FileFormatError(
                f"{where} must have shape (rows, {scores.width_words}), as in fit, got"
                f" {header.shape}."
            )
        yield from _npy_rows(file, header.shape, np.dtype(header.descr), where, scores, bad)


def _npy_rows(
    file: IO[bytes],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    where: str,
    scores: Scores,
    bad: BadRow,
) -> Iterator[Batch]:
    n_rows, width = shape
    row_bytes = width * dtype.itemsize
    step = max(1, _PIECE_BYTES // row_bytes)
    for start in range(0, n_rows, step):
        wanted = min(step, n_rows - start)
        raw = file.read(wanted * row_bytes)
        n = len(raw) // row_bytes
        rows = np.frombuffer(raw, dtype, n * width).reshape(n, width)
        yield from _good_rows(rows, where, start, scores, bad)
        if n < wanted:
            raise FileFormatError(f"{where} is cut short after {start + n} of {n_rows} rows.")


def _good_rows(
    rows: NDArray[Any], where: str, start: int, scores: Scores, bad: BadRow
) -> Iterator[Batch]:
    """Yield runs of rows between bad ones."""
    logits, wrong = scores.read(rows)
    begin = 0
    for end in [*wrong, len(rows)]:
        if end > begin:
            which = f"{where}, rows {start + begin} to {start + end - 1}"
            yield Batch(logits[begin:end], [{}] * (end - begin), which)
        if end < len(rows):
            bad(f"{where}, row {start + end}: {wrong[end]}")
        begin = end + 1


class _Begun:
    """A file whose first bytes have been read already."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head = head
        self._file = file

    def read(self, n: int) -> bytes:
        head, self._head = self._head, b""
        return head + self._file.read(n - len(head))
