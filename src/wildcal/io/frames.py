"""Frames and arrays as batches."""

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from wildcal.core.exceptions import InputError
from wildcal.core.validation import as_numpy
from wildcal.io.formats import Batch, arrow_batch


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
    """Return an array, tensor, Series or list as NumPy; Dask arrays are computed."""
    array = as_numpy(values.compute() if hasattr(values, "dask") else values, "X")
    if not array.ndim:
        raise InputError(
            f"source must be a path, a frame or an array, got {type(values).__name__}.", "source"
        )
    return array


def _column_batch(frame: Any, names: Any) -> Batch:
    texts = {str(name): name for name in names}
    return Batch(frame, tuple(texts), lambda name: to_array(frame[texts[name]]))
