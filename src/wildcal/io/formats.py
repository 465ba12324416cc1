"""Read tables and arrays from files, batch by batch.

A file is a `Source`: its column names and an iterator of batches. A batch maps names to NumPy
arrays, which are converted when they are used; `raw` has the data for the writer of the format.
"""

import csv
import gzip
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import FileFormatError, InputError, MissingExtraError, needs_extra
from wildcal.core.validation import in_memory
from wildcal.io.schema import is_number

BATCH: Final = 1 << 16
"""Samples that are read at a time."""
_DELIMITERS: Final = ",;\t"


class Batch(Mapping[str, NDArray[Any]]):
    """Columns of some samples."""

    def __init__(self, raw: Any, names: Sequence[str], get: Callable[[str], NDArray[Any]]) -> None:
        self.raw, self._names, self._get = raw, tuple(names), get

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Source(ABC):
    """A file: the names of its columns, and batches of its samples."""

    path: Path
    names: tuple[str, ...]
    kind: str
    """Which writer writes the same format: "arrow", "csv", "jsonl" or "arrays"."""
    row_groups: Sequence[int] | None = None
    """The row groups of a Parquet file that are read, all by default."""

    @abstractmethod
    def batches(self, names: Sequence[str] | None) -> Iterator[Batch]:
        """Yield batches, of only some columns where that saves time."""

    def read(self, names: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield batches in which `names` are used, all columns by default.

        Damaged files raise a FileFormatError.
        """
        with _reading(self.path):
            yield from self.batches(names)


def open_source(path: Path) -> Source:
    """Return the source of a file, by the ending of its name."""
    if not path.exists():
        raise FileFormatError(f"{path} does not exist.")
    if not ending(path):
        known = " ".join(SOURCES)
        raise FileFormatError(f"{path} must have one of the endings {known}, got {path.name}.")
    with _reading(path):
        return SOURCES[ending(path)](path)


class ArrowSource(Source):
    """Parquet, Arrow and Feather files."""

    kind = "arrow"

    def __init__(self, path: Path) -> None:
        self.path = path
        with _arrow_file(path) as (schema, n_row_groups, _):
            self.schema, self.n_row_groups = schema, n_row_groups
        self.names = tuple(schema.names)
        _check_unique(self.names, path)

    def batches(self, names: Sequence[str] | None) -> Iterator[Batch]:
        """Yield record batches."""
        with _arrow_file(self.path) as (_, _, read):
            records = read(names, self.row_groups)
            yield from (arrow_batch(record) for record in records if record.num_rows)


class CsvSource(Source):
    """Text with column names in the first line; values are text until they are used."""

    kind = "csv"

    def __init__(self, path: Path) -> None:
        self.path = path
        with _text(path) as file:
            line = file.readline()
        self.delimiter = max(_DELIMITERS, key=line.count)
        self.names = tuple(next(csv.reader([line], delimiter=self.delimiter), ()))
        if not self.names or all(is_number(name) for name in self.names):
            raise InputError(
                f"{path} must have column names in the first line, got {line.strip()!r:.60}."
            )
        _check_unique(self.names, path)

    def batches(self, names: Sequence[str] | None) -> Iterator[Batch]:
        """Yield batches of text columns, parsed by pyarrow where it is installed."""
        if find_spec("pyarrow") is not None:
            yield from self._by_arrow(names)
            return
        with _text(self.path) as file:
            rows = csv.reader(file, delimiter=self.delimiter)
            next(rows)
            while part := list(islice(rows, BATCH)):
                wrong = next((row for row in part if len(row) != len(self.names)), None)
                if wrong is not None:
                    raise InputError(
                        f"{self.path} must have {len(self.names)} columns in each line, got"
                        f" {len(wrong)}: {self.delimiter.join(wrong)!r:.60}."
                    )
                texts = np.array(part, dtype=object).T
                columns = dict(zip(self.names, texts, strict=True))
                yield Batch(columns, self.names, columns.__getitem__)

    def _by_arrow(self, names: Sequence[str] | None) -> Iterator[Batch]:
        import pyarrow
        from pyarrow import csv as arrow_csv

        reading = arrow_csv.ReadOptions(block_size=1 << 24)
        parsing = arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        as_text = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(self.names, pyarrow.string()), include_columns=names
        )
        with arrow_csv.open_csv(self.path, reading, parsing, as_text) as reader:
            yield from (arrow_batch(record) for record in reader if record.num_rows)


class JsonLinesSource(Source):
    """One JSON object a line."""

    kind = "jsonl"

    def __init__(self, path: Path) -> None:
        self.path = path
        first = next(self._records(1), None)
        if first is None:
            raise InputError(f"{path}: there are no samples.")
        self.first = first[0]
        self.names = tuple(self.first)

    def batches(self, names: Sequence[str] | None) -> Iterator[Batch]:
        """Yield batches of records."""
        for records in self._records(BATCH):
            yield Batch(records, self.names, partial(json_column, records))

    def _records(self, size: int) -> Iterator[list[dict[str, Any]]]:
        with _text(self.path) as file:
            lines = (line for line in enumerate(file, start=1) if line[1].strip())
            while part := list(islice(lines, size)):
                yield [self._record(number, line) for number, line in part]

    def _record(self, number: int, line: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{self.path} must be JSON in line {number}: {error}.") from None
        if not isinstance(record, dict):
            raise InputError(f"{self.path} must have an object in line {number}, got {line!r:.60}.")
        return record


class ArraySource(Source):
    """Files of named arrays: .npz, .npy, .safetensors, .pt."""

    kind = "arrays"

    def __init__(self, path: Path, arrays: Mapping[str, Any], objects: Sequence[str] = ()) -> None:
        self.path, self._arrays = path, arrays
        self.names = (*arrays, *objects)  # the latter cannot be read

    def batches(self, names: Sequence[str] | None) -> Iterator[Batch]:
        """Yield all samples at once."""
        yield Batch(self._arrays, tuple(self._arrays), self._get)

    def _get(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            raise InputError(f"{name} holds Python objects. Try {name}.astype(str) in np.savez.")
        return np.asarray(self._arrays[name])


def arrow_batch(record: Any) -> Batch:
    """Return a pyarrow RecordBatch or Table as a batch."""
    return Batch(record, record.schema.names, lambda name: arrow_column(record.column(name)))


def arrow_column(column: Any) -> NDArray[Any]:
    """Return a pyarrow column as NumPy: lists as rows of a matrix, missing numbers as NaN."""
    import pyarrow

    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    if hasattr(column, "value_lengths"):
        flat = column.flatten()
        width = len(flat) // max(len(column), 1)
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if not (lengths == width).all():
            raise InputError("score_columns must be lists of equal length.", "score_columns")
        return np.asarray(flat.to_numpy(zero_copy_only=False).reshape(len(column), width))
    return np.asarray(column.to_numpy(zero_copy_only=False))


@contextmanager
def _arrow_file(path: Path) -> Iterator[Any]:
    """Give the schema of a Parquet or Arrow file, its row groups, and a reader of batches."""
    with needs_extra(str(path), "tables"):
        import pyarrow
        from pyarrow import ipc, parquet

    if path.suffix.lower() == ".parquet":
        with parquet.ParquetFile(path) as file:
            yield (
                file.schema_arrow,
                file.metadata.num_row_groups,
                lambda names, groups: file.iter_batches(
                    BATCH, row_groups=groups, columns=names, use_threads=False
                ),
            )
        return
    with pyarrow.memory_map(str(path)) as file:
        try:
            reader = ipc.open_file(file)
            records: Iterable[Any] = map(reader.get_batch, range(reader.num_record_batches))
        except pyarrow.ArrowInvalid:
            records = reader = ipc.open_stream(file)
        yield reader.schema, 0, lambda names, groups: records


def _npz(path: Path) -> Source:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        if "manifest.json" in archive.files:
            raise InputError(f"{path} is a suite, expected a file of samples.")
        arrays, objects = {}, []
        for name in archive.files:
            try:
                arrays[name] = archive[name]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
                objects.append(name)
    return ArraySource(path, arrays, objects)


def _npy(path: Path) -> Source:
    array = np.load(path, allow_pickle=False, mmap_mode="r")
    return ArraySource(path, {"logits" if array.ndim == 2 else "label": array})


def _safetensors(path: Path) -> Source:
    with needs_extra(str(path), "tables"):
        from safetensors import safe_open

    framework = "np" if find_spec("torch") is None else "pt"  # NumPy has no bfloat16
    with safe_open(path, framework) as file:
        return ArraySource(path, {name: in_memory(file.get_tensor(name)) for name in file.keys()})


def _torch(path: Path) -> Source:
    with needs_extra(str(path), "torch"):
        import torch

    found = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(found, torch.Tensor):
        found = {"logits": found}
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold a tensor or a dict of tensors.")
    tensors = {str(k): in_memory(v) for k, v in found.items() if isinstance(v, torch.Tensor)}
    return ArraySource(path, tensors)


SOURCES: Final[dict[str, Callable[[Path], Source]]] = {
    ".parquet": ArrowSource,
    ".arrow": ArrowSource,
    ".feather": ArrowSource,
    ".csv": CsvSource,
    ".csv.gz": CsvSource,
    ".tsv": CsvSource,
    ".jsonl": JsonLinesSource,
    ".jsonl.gz": JsonLinesSource,
    ".npz": _npz,
    ".npy": _npy,
    ".safetensors": _safetensors,
    ".pt": _torch,
}
"""The reader of each format by the ending of a file's name."""


def ending(path: Path) -> str:
    """Return the key of the reader of a file in `SOURCES`, "" if there is none."""
    name = path.name.lower()
    return next((end for end in SOURCES if name.endswith(end)), "")


def _text(path: Path) -> IO[str]:
    if path.name.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def json_column(records: Sequence[Mapping[str, Any]], name: str) -> NDArray[Any]:
    """Return a field of JSON objects: numbers or objects."""
    values = [record.get(name) for record in records]
    if all(isinstance(value, int | float) for value in values):
        return np.array(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _check_unique(names: Sequence[str], path: Path) -> None:
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise InputError(f"{path} must have different column names, got {double!r} twice.")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the path of a file before the message of an InputError about its content."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}", error.param) from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise a FileFormatError for any error of a library that reads a damaged file."""
    try:
        yield
    except (InputError, FileFormatError, MissingExtraError):
        raise
    except Exception as error:
        text = " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__
        raise FileFormatError(f"{path} cannot be read: {text}. Is it truncated?") from error
