"""Write batches with added columns, in the format they were read from."""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError
from wildcal.io.atomic import atomic_write
from wildcal.io.formats import ArrowSource, Batch, CsvSource, Source

New = Mapping[str, NDArray[Any]]


class Writer(Protocol):
    """Writes one file."""

    def write(self, batch: Batch, new: New) -> None:
        """Write a batch with new columns."""


def output_name(path: Path, source: Source) -> str:
    """Return the name of the result of a file: its own, .npz for files of one array or tensors."""
    return path.name if source.kind != "arrays" else f"{path.name.rpartition('.')[0]}.npz"


@contextmanager
def open_writer(path: Path, source: Source) -> Iterator[Writer]:
    """Open a file for the batches of a source; it has its name when all are written."""
    with atomic_write(path, "wb") as file:
        writer = _WRITERS[source.kind](file, source, path)
        yield writer
        writer.close()


class _ArrowWriter:
    def __init__(self, file: IO[bytes], source: Source, path: Path) -> None:
        assert isinstance(source, ArrowSource)
        self._file, self._path, self._schema = file, path, source.schema
        self._writer: Any = None

    def write(self, batch: Batch, new: New) -> None:
        import pyarrow

        record = batch.raw
        table = pyarrow.Table.from_batches([record]) if hasattr(record, "num_columns") else record
        for name, values in new.items():
            table = table.append_column(name, pyarrow.array(values))
        table = table.replace_schema_metadata(self._schema.metadata)
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _open(self, schema: Any) -> Any:
        from pyarrow import ipc, parquet

        if self._path.suffix == ".parquet":
            return parquet.ParquetWriter(self._file, schema)
        return ipc.new_file(self._file, schema)


class _CsvWriter:
    def __init__(self, file: IO[bytes], source: Source, path: Path) -> None:
        assert isinstance(source, CsvSource)
        self._binary = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if _is_gz(path) else None
        self._file = io.TextIOWrapper(self._binary or file, encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, delimiter=source.delimiter, lineterminator="\n")
        self._started = False

    def write(self, batch: Batch, new: New) -> None:
        if not self._started:
            self._writer.writerow([*batch, *new])
            self._started = True
        columns = [batch[name].tolist() for name in batch]
        self._writer.writerows(zip(*columns, *(v.tolist() for v in new.values()), strict=True))

    def close(self) -> None:
        _close_text(self._file, self._binary)


class _JsonLinesWriter:
    def __init__(self, file: IO[bytes], source: Source, path: Path) -> None:
        self._binary = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if _is_gz(path) else None
        self._file = io.TextIOWrapper(self._binary or file, encoding="utf-8", newline="")

    def write(self, batch: Batch, new: New) -> None:
        columns = {name: values.tolist() for name, values in new.items()}
        for i, record in enumerate(batch.raw):
            added = {name: values[i] for name, values in columns.items()}
            self._file.write(json.dumps({**record, **added}, ensure_ascii=False) + "\n")

    def close(self) -> None:
        _close_text(self._file, self._binary)


class _ArrayWriter:
    def __init__(self, file: IO[bytes], source: Source, path: Path) -> None:
        self._file = file

    def write(self, batch: Batch, new: New) -> None:
        texts = {k: v.astype(str) if v.dtype == object else v for k, v in new.items()}
        arrays: dict[str, Any] = {**{name: batch[name] for name in batch}, **texts}
        np.savez(self._file, **arrays)

    def close(self) -> None:
        """Nothing is left to write."""


_WRITERS: dict[str, Any] = {
    "arrow": _ArrowWriter,
    "csv": _CsvWriter,
    "jsonl": _JsonLinesWriter,
    "arrays": _ArrayWriter,
}


def check_new_columns(source: Source, names: list[str]) -> None:
    """Raise if the result would have two columns of the same name."""
    double = [name for name in names if name in source.names]
    if double:
        raise InputError(
            f"the file has a column {double[0]!r} already, which is the name of a result. Try"
            " renaming it."
        )


def _is_gz(path: Path) -> bool:
    return path.suffix == ".gz"


def _close_text(file: io.TextIOWrapper, binary: gzip.GzipFile | None) -> None:
    """End a text without closing the file below it."""
    file.flush()
    file.detach()
    if binary is not None:
        binary.close()
