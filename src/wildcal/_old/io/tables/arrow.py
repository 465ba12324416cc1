"""Parquet, Arrow and Feather, and text tables with words, through pyarrow (extra `tables`)."""

import io
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import MissingExtraError
from wildcal._old.io.tables.objects import as_object_column
from wildcal._old.io.tables.source import (
    Arrays,
    Source,
    check_expansion,
    check_names,
    damage,
)

if TYPE_CHECKING:
    from wildcal._old.io.tables.text import Layout


def need_arrow(why: str) -> Any:
    """Return pyarrow, or raise with the pip line and the reason it is needed."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            f'{why} needs pyarrow. Install it with: pip install "wildcal[tables]"'
        ) from None
    return pyarrow


def read_parquet(file: IO[bytes], title: str) -> Source:
    """Return the columns of a Parquet file; only those asked for are read."""
    need_arrow("reading .parquet")
    from pyarrow import parquet

    with damage(title, ".parquet", "Was it cut short?"):
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        whole = parquet.ParquetFile(file)
        names = tuple(whole.schema_arrow.names)
        check_expansion(title, "its columns", size, 8 * whole.metadata.num_rows * len(names))
        unpacked = sum(
            whole.metadata.row_group(i).total_byte_size for i in range(whole.num_row_groups)
        )
        check_expansion(title, "its columns", size, unpacked)
        check_names(names, title)

    def load(wanted: Sequence[str]) -> Arrays:
        with damage(title, ".parquet", "Was it cut short?"):
            return table_arrays(whole.read(columns=list(wanted)), wanted)

    return Source(title, names, load, columnar=True)


def read_feather(file: IO[bytes], title: str) -> Source:
    """Return the columns of an Arrow file, an Arrow stream or a Feather file of either version."""
    arrow = need_arrow("reading .arrow and .feather")
    from pyarrow import feather

    with damage(title, ".arrow", "Was it cut short?"):
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        start = file.read(6)
        file.seek(0)
        if start.startswith(b"FEA1"):
            return table_source(feather.read_table(file), title)
        if start.startswith(b"ARROW1"):
            whole = arrow.ipc.open_file(file)
            parts = (whole.get_batch(i) for i in range(whole.num_record_batches))
        else:
            whole = parts = arrow.ipc.open_stream(file)
        batches = []
        for batch in parts:
            batches.append(batch)
            check_expansion(title, "its columns", size, sum(b.nbytes for b in batches))
        table = arrow.Table.from_batches(batches, whole.schema)
    return table_source(table, title)


def table_source(table: Any, title: str) -> Source:
    """Return the columns of a pyarrow.Table."""
    check_names(table.column_names, title)
    return Source(
        title,
        tuple(table.column_names),
        lambda wanted: table_arrays(table.select(list(wanted)), wanted),
        columnar=True,
    )


def read_arrow_csv(data: bytes, layout: "Layout", title: str) -> Arrays:
    """Return the columns of a text table, each as numbers, truth values or text."""
    try:
        need_arrow("reading text")
    except MissingExtraError:
        from wildcal._old.io.tables.text import first_word

        why = "reading words, quotes or gaps in a table"
        if layout.decimal == ",":
            why = "reading numbers with a decimal comma"
        raise MissingExtraError(
            f"{title}: {first_word(data, layout)}, and {why} needs pyarrow. Install it with:"
            ' pip install "wildcal[tables]"'
        ) from None
    from pyarrow import csv

    text = data.decode(layout.encoding)
    # One block, so that the type of a column is judged by all of it.
    table = csv.read_csv(
        io.BytesIO(text.encode()),
        read_options=csv.ReadOptions(
            column_names=list(layout.names),
            skip_rows=int(layout.header),
            block_size=min(max(len(text) * 4, 1 << 20), (1 << 31) - 1),
        ),
        parse_options=csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(decimal_point=layout.decimal),
    )
    return table_arrays(table, layout.names)


def table_arrays(table: Any, names: Sequence[str]) -> Arrays:
    """Return the columns of a pyarrow.Table as arrays."""
    return {name: _column(table.column(name)) for name in names}


def _column(column: Any) -> NDArray[Any]:
    import pyarrow as arrow

    kind = column.type
    if isinstance(kind, arrow.BaseExtensionType):  # such as a matrix of fixed shape
        column = arrow.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
        kind = column.type
    if arrow.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if arrow.types.is_decimal(kind):
        column = column.cast(arrow.float64())
    elif arrow.types.is_boolean(kind) and column.null_count:
        column = column.cast(arrow.float64())
    elif arrow.types.is_null(kind):
        return np.full(len(column), np.nan)
    elif _is_list(kind):
        return _matrix(column)
    elif not arrow.types.is_primitive(kind):
        return as_object_column(column.to_pylist())
    return np.asarray(column.to_numpy())


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _matrix(column: Any) -> NDArray[Any]:
    """Return lists of numbers of one length as the rows of a matrix, others as they are."""
    from pyarrow import types

    inner = column.type.value_type
    numbers = types.is_floating(inner) or types.is_integer(inner)
    if column.null_count or not numbers or not len(column):
        return as_object_column(column.to_pylist())
    parts = []
    for chunk in column.chunks:
        lengths = np.unique(chunk.value_lengths().to_numpy(zero_copy_only=False))
        if len(lengths) == 1 and lengths[0] > 0:
            flat = chunk.flatten().to_numpy(zero_copy_only=False)
            parts.append(flat.reshape(-1, int(lengths[0])))
        elif len(lengths):
            return as_object_column(column.to_pylist())
    if len({part.shape[1] for part in parts}) != 1:
        return as_object_column(column.to_pylist())
    return np.concatenate(parts)
