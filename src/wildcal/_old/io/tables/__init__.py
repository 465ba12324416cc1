"""Tables in and out: many formats, one reader, and every number is what it was declared to be."""

from wildcal._old.io.tables.others import with_others
from wildcal._old.io.tables.rows import InputRows, as_rows, read_rows
from wildcal._old.io.tables.table import (
    Table,
    read_distances,
    read_environments,
    read_labels,
    read_table,
)
from wildcal._old.io.tables.write import check_result, write_result

__all__ = [
    "InputRows",
    "Table",
    "as_rows",
    "check_result",
    "read_distances",
    "read_environments",
    "read_labels",
    "read_rows",
    "read_table",
    "with_others",
    "write_result",
]
