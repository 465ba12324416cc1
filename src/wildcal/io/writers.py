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


class _TextWriter:
    """A text file, compressed if its name ends in .gz."""

    def __init__(self, file: IO[bytes], source: Source, path: Path) -> None:
        is_gz = path.suffix == ".gz"
        self._binary = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if is_gz else None
        self._file = io.TextIOWrapper(self._binary or file, encoding="utf-8", newline="")

    def close(self) -> None:
        """End the text without closing the file below it."""
        self._file.flush()
        self._file.detach()
        if self._binary is not None:
            self._binary.close()


class _CsvWriter(_TextWriter):
    def __init__(self, file: IO[bytes], source: Source, path: Path) -> None:
        super().__init__(file, source, path)
        assert isinstance(source, CsvSource)
        self._writer = csv.writer(self._file, delimiter=source.delimiter, lineterminator="\n")
        self._started = False

    def write(self, batch: Batch, new: New) -> None:
        if not self._started:
            self._writer.writerow([*batch, *new])
            self._started = True
        columns = [batch[name].tolist() for name in batch]
        self._writer.writerows(zip(*columns, *(v.tolist() for v in new.values()), strict=True))


class _JsonLinesWriter(_TextWriter):
    def write(self, batch: Batch, new: New) -> None:
        columns = {name: values.tolist() for name, values in new.items()}
        for i, record in enumerate(batch.raw):
            added = {name: values[i] for name, values in columns.items()}
            self._file.write(json.dumps({**record, **added}, ensure_ascii=False) + "\n")


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
