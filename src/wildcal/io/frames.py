"""Frames and arrays as batches."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError
from wildcal.io.formats import Batch, arrow_batch, as_array


def frame_batches(frame: Any) -> Iterator[Batch] | None:
    """Yield the samples of a pandas, polars, pyarrow or Dask frame, or of a dict of arrays.

    None for anything else.
    """
    if hasattr(frame, "npartitions") and hasattr(frame, "columns"):  # Dask
        parts = (frame.partitions[i].compute() for i in range(frame.npartitions))
        return (_column_batch(part, part.columns) for part in parts)
    if hasattr(frame, "schema") and hasattr(frame, "column_names"):  # pyarrow.Table
        return iter([arrow_batch(frame)])
    if hasattr(frame, "columns") and hasattr(frame, "to_numpy"):  # pandas, polars
        return iter([_column_batch(frame, frame.columns)])
    if isinstance(frame, Mapping):
        return iter([_column_batch(frame, frame)])
    return None


def to_array(values: Any) -> NDArray[Any]:
    """Return an array, tensor, Series or list as NumPy."""
    if hasattr(values, "detach"):
        return as_array(values)
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise InputError("X must not have masked entries. Try dropping those samples.", "X")
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if not hasattr(values, "shape") and not isinstance(values, list | tuple):
        raise InputError(
            f"source must be a path, a frame or an array, got {type(values).__name__}.", "source"
        )
    return np.asarray(values)


def _column_batch(frame: Any, names: Any) -> Batch:
    texts = {str(name): name for name in names}
    return Batch(frame, tuple(texts), lambda name: to_array(frame[texts[name]]))
