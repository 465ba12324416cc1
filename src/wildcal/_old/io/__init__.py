"""Files in and out: logits, labels, probabilities and fitted calibrators. No pickle, ever."""

from wildcal._old.io.artifact import About, load, load_with_about, save
from wildcal._old.io.tables import (
    InputRows,
    Table,
    as_rows,
    read_labels,
    read_rows,
    read_table,
    write_result,
)

__all__ = [
    "About",
    "InputRows",
    "Table",
    "as_rows",
    "load",
    "load_with_about",
    "read_labels",
    "read_rows",
    "read_table",
    "save",
    "write_result",
]
