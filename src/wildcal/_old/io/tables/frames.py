"""What people hold in Python as a source: frames, tensors, dicts of arrays, arrays and lists.

No package is imported for it: a frame brings its own.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.io.tables.objects import as_object_column
from wildcal._old.io.tables.source import (
    Arrays,
    Source,
    arrays_source,
    bare_source,
    check_names,
)
from wildcal._old.io.tables.tensors import from_torch


def source_of(values: Any, title: str = "the input") -> Source:
    """Return the columns of a frame, the arrays of a dict, or one bare array."""
    package = type(values).__module__.partition(".")[0]
    word = type(values).__name__
    if package == "pandas" and hasattr(values, "columns"):
        return _pandas(values)
    if package == "polars" and word == "LazyFrame":
        raise ValueError("a LazyFrame has no rows yet. Pass frame.collect().")
    if package == "polars" and hasattr(values, "columns"):
        return _polars(values)
    if package == "pyarrow" and word == "Table":
        from wildcal._old.io.tables.arrow import table_source

        return table_source(values, "the table")
    if isinstance(values, Mapping):
        return arrays_source("the dict", {str(k): as_array(v, str(k)) for k, v in values.items()})
    return bare_source(title, as_array(values, title))


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return a tensor, series, list or array as a NumPy array; masked and sparse are refused."""
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(
            f"{name} is a masked array, and a mask is not a score. Drop the masked rows, or fill"
            " a class that is ruled out: array.filled(-np.inf)."
        )
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        return from_torch(values, name)
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise ValueError(f"{name} is a sparse matrix. Pass {name}.toarray().")
    package = type(values).__module__.partition(".")[0]
    if package in ("pandas", "polars") and hasattr(values, "columns"):
        source = source_of(values)
        return np.column_stack(list(source.load(source.names).values()))
    if package in ("pandas", "polars"):
        return _pandas_series(values) if package == "pandas" else _polars_series(values)
    if isinstance(values, str | bytes | PurePath):
        raise ValueError(
            f"{name} must be numbers, got the text {values!r:.40}. Read files with read_rows."
        )
    if isinstance(values, tuple) and any(getattr(part, "ndim", 0) == 2 for part in values):
        raise ValueError(
            f"{name} is a tuple of {len(values)} arrays, as models with several outputs return."
            " Pass the one with the scores, usually [0]."
        )
    if isinstance(values, Sequence) and any(isinstance(row, Mapping) for row in values):
        return as_object_column(values)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        raise ValueError(
            f"{name} must be a table of numbers: rows of one length, on this machine, got"
            f" {type(values).__name__}."
        ) from None
    return as_object_column(list(array)) if array.dtype == object and array.ndim else array


def label_array(y: Any) -> NDArray[Any]:
    """Return labels as an array; several in a row stay lists, to be refused by name."""
    if isinstance(y, list | tuple) and any(isinstance(label, list | tuple | set) for label in y):
        return as_object_column([list(v) if isinstance(v, set) else v for v in y])
    return as_array(y, "y")


def _pandas(frame: Any) -> Source:
    names = [str(name) for name in frame.columns]
    check_names(names, "the frame")

    def load(wanted: Sequence[str]) -> Arrays:
        return {n: _pandas_series(frame.iloc[:, names.index(n)]) for n in wanted}

    numbered = names == [str(k) for k in range(len(names))]
    if numbered:  # a frame made of an array: its columns have no names
        return bare_source("the frame", np.column_stack(list(load(names).values())))
    return Source("the frame", tuple(names), load, columnar=True)


def _pandas_series(series: Any) -> NDArray[Any]:
    kind = series.dtype
    if getattr(kind, "kind", "O") in "biuf" and not hasattr(series, "cat"):
        if series.isna().any():  # pandas has gaps of its own among integers and truth values
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(series.to_numpy(dtype=getattr(kind, "numpy_dtype", kind)))
    if getattr(kind, "kind", "O") in "mM":
        return np.asarray(series.to_numpy())
    return as_object_column([None if _is_gap(v) else v for v in series.tolist()])


def _is_gap(value: Any) -> bool:
    """Return whether a cell is one of the marks of pandas for nothing: None, NaN or NA."""
    return type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float) and value != value
    )


def _polars(frame: Any) -> Source:
    names = tuple(frame.columns)
    return Source(
        "the frame",
        names,
        lambda wanted: {n: _polars_series(frame.get_column(n)) for n in wanted},
        columnar=True,
    )


def _polars_series(series: Any) -> NDArray[Any]:
    if series.dtype.is_numeric() and not series.dtype.is_decimal():
        return np.asarray(series.to_numpy())
    if series.dtype.is_temporal():
        return np.asarray(series.to_numpy())
    return as_object_column(
        [float(v) if series.dtype.is_decimal() and v is not None else v for v in series.to_list()]
    )
