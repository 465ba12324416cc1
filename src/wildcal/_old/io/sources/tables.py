"""Shards that are tables: Parquet by row groups, Arrow by record batches, other files whole."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from wildcal._old.io.sources.part import ROLES, Part, Stamp
from wildcal._old.io.tables import InputRows, as_rows, read_rows
from wildcal._old.io.tables.arrow import need_arrow
from wildcal._old.io.tables.source import damage, named_after


def table_parts(path: str, ending: str, stamp: Stamp) -> list[Part]:
    """Return the parts of a table; its columns are told apart as `read_rows` does."""
    if ending == ".parquet":
        with damage(path, ".parquet", "Was it cut short?"):
            whole = _parquet(path)
            sizes = [whole.metadata.row_group(i).num_rows for i in range(whole.num_row_groups)]
    elif ending in (".arrow", ".feather"):
        sizes = _batch_sizes(path)
    else:
        sizes = []
    if not sizes:
        found = read_table(path, None)
        return [_part(path, None, len(found["logits"]), found, stamp)]
    head = read_table(path, 0)
    return [_part(path, i, n, head, stamp) for i, n in enumerate(sizes) if n]


def _part(
    path: str, piece: int | None, n: int, like: Mapping[str, NDArray[Any]], stamp: Stamp
) -> Part:
    roles = tuple(role for role in ROLES if role in like)
    logits = like["logits"]
    return Part(path, n, logits.shape[1], logits.dtype.str, roles, stamp, piece=piece)


def read_table(path: str, piece: int | None) -> Mapping[str, NDArray[Any]]:
    """Return the columns of a table, or of one piece of it."""
    if piece is None:
        return _columns(read_rows(path))
    with damage(path, "table", "Was it cut short?"):
        if path.endswith(".parquet"):
            table = _parquet(path).read_row_group(piece)
        else:
            arrow = need_arrow("reading .arrow")
            with arrow.memory_map(path) as file:
                batch = arrow.ipc.open_file(file).get_batch(piece)
                table = arrow.Table.from_batches([batch])
    with named_after(path):
        return _columns(as_rows(table))


def _columns(rows: InputRows) -> dict[str, NDArray[Any]]:
    named = {role: getattr(rows, role) for role in ROLES}
    return {role: column for role, column in named.items() if column is not None}


def _parquet(path: str) -> Any:
    need_arrow("reading .parquet")
    from pyarrow import parquet

    return parquet.ParquetFile(path, memory_map=False)


def _batch_sizes(path: str) -> list[int]:
    arrow = need_arrow("reading .arrow and .feather")
    with arrow.memory_map(path) as file:
        if file.read(6) != b"ARROW1":
            return []  # a stream, or the first version of Feather: read whole
        file.seek(0)
        with damage(path, ".arrow", "Was it cut short?"):
            whole = arrow.ipc.open_file(file)
            return [whole.get_batch(i).num_rows for i in range(whole.num_record_batches)]
