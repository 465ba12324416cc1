"""Write batches with added columns, in the format they were read from."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.io.atomic import atomic_write
from wildcal.io.formats import Batch, Source

Added: TypeAlias = Mapping[str, NDArray[Any]]
"""Columns to add, by name."""
Write: TypeAlias = Callable[[Batch, Added], None]
"""Writes a batch with added columns."""


def output_name(path: Path, source: Source) -> str:
    """Return the name of the result of a file: its own, .npz for files of one array or tensors."""
    return path.name if source.kind != "arrays" else f"{path.name.rpartition('.')[0]}.npz"


@contextmanager
def open_writer(path: Path, source: Source) -> Iterator[Write]:
    """Give a function that writes batches of a source; the file has its name when it is complete.

    The name of the file decides about compression.
    """
    with atomic_write(path, "wb") as file, _WRITERS[source.kind](file, source, path) as write:
        yield write


@contextmanager
def _arrow_writer(file: IO[bytes], source: Any, path: Path) -> Iterator[Write]:
    import pyarrow
    from pyarrow import ipc, parquet

    open_file = parquet.ParquetWriter if path.suffix.lower() == ".parquet" else ipc.new_file
    writer: Any = None
    with ExitStack() as opened:

        def write(batch: Batch, added: Added) -> None:
            nonlocal writer
            table = pyarrow.Table.from_batches([batch.raw])
            for name, values in added.items():
                table = table.append_column(name, pyarrow.array(values))
            table = table.replace_schema_metadata(source.schema.metadata)
            if writer is None:
                writer = opened.enter_context(open_file(file, table.schema))
            writer.write_table(table)

        yield write


@contextmanager
def _text_file(file: IO[bytes], path: Path) -> Iterator[IO[str]]:
    """Give a file of text, compressed if its name ends in .gz; the file below it stays open."""
    with ExitStack() as opened:
        binary: Any = file
        if path.suffix == ".gz":
            binary = opened.enter_context(gzip.GzipFile(fileobj=file, mode="wb", mtime=0))
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        opened.callback(text.detach)  # writes what is left
        yield text


@contextmanager
def _csv_writer(file: IO[bytes], source: Any, path: Path) -> Iterator[Write]:
    with _text_file(file, path) as text:
        writer = csv.writer(text, delimiter=source.delimiter, lineterminator="\n")

        def write(batch: Batch, added: Added) -> None:
            if not text.tell():
                writer.writerow([*batch, *added])
            columns = [values.tolist() for values in (*batch.values(), *added.values())]
            writer.writerows(zip(*columns, strict=True))

        yield write


@contextmanager
def _json_lines_writer(file: IO[bytes], source: Any, path: Path) -> Iterator[Write]:
    with _text_file(file, path) as text:

        def write(batch: Batch, added: Added) -> None:
            rows = zip(*(values.tolist() for values in added.values()), strict=True)
            for record, row in zip(batch.raw, rows, strict=True):
                whole = {**record, **dict(zip(added, row, strict=True))}
                text.write(json.dumps(whole, ensure_ascii=False) + "\n")

        yield write


@contextmanager
def _array_writer(file: IO[bytes], source: Any, path: Path) -> Iterator[Write]:
    def write(batch: Batch, added: Added) -> None:
        texts = {k: v.astype(str) if v.dtype == object else v for k, v in added.items()}
        arrays: dict[str, Any] = {**batch, **texts}
        np.savez(file, **arrays)

    yield write


_WRITERS: Final[dict[str, Callable[..., AbstractContextManager[Write]]]] = {
    "arrow": _arrow_writer,
    "csv": _csv_writer,
    "jsonl": _json_lines_writer,
    "arrays": _array_writer,
}
