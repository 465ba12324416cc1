"""Dask arrays and data frames as a source: chunks are made when they are asked for.

On a cluster the rows of a task come to it as its input, from the chunks that hold them; here they
are computed when a slice is read.
"""

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Logits
from wildcal._old.core.errors import MissingExtraError

_numbers: Final = itertools.count()
# On a worker: the rows of the task of a thread, by the token of their collection.
_here = threading.local()


@contextmanager
def rows_here(found: Mapping[str, tuple[int, NDArray[Any]]]) -> Iterator[None]:
    """Let collections be read in this thread, from pieces that begin at some row."""
    _here.found = found
    try:
        yield
    finally:
        _here.found = {}


@contextmanager
def collecting() -> Iterator[dict[str, Any]]:
    """Collect the Dask arrays of what is pickled in this thread, by their tokens."""
    found: dict[str, Any] = {}
    _here.arrays = found
    try:
        yield found
    finally:
        del _here.arrays


@dataclass(frozen=True)
class Chunked:
    """One Dask array: logits, or a column. What is sent to a worker is its token."""

    token: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    array: Any = field(default=None, repr=False, compare=False)
    y: "Chunked | None" = None
    weight: "Chunked | None" = None
    environment: "Chunked | None" = None
    distances: "Chunked | None" = None
    portable: bool = True

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> Any:
        if hasattr(_here, "arrays"):
            _here.arrays[self.token] = self.array
        return Chunked, (self.token, self.shape, self.dtype)

    def __getitem__(self, rows: slice) -> Logits:
        """Return some rows, computed now or brought to this task."""
        start, stop, step = rows.indices(len(self))
        if self.array is not None:
            return np.asarray(self.array[start:stop:step].compute(scheduler="threads"))
        first, piece = _here.found[self.token]
        return np.asarray(piece[start - first : stop - first : step])


def from_dask(
    logits: Any,
    y: Any = None,
    *,
    weight: Any = None,
    environment: Any = None,
    distances: Any = None,
    columns: Sequence[str] | None = None,
) -> Chunked:
    """Return a Dask array (n, K), or a Dask data frame, and columns beside it as a source.

    Parameters
    ----------
    logits
        The scores. Of a data frame, its `columns`, by default all but `y` and its other columns,
        which may be given by name.
    """
    try:
        import dask.array as da
    except ImportError:
        raise MissingExtraError(
            'reading Dask arrays needs dask. Install it with: pip install "wildcal[dask]"'
        ) from None
    named = {"y": y, "weight": weight, "environment": environment, "distances": distances}
    if hasattr(logits, "to_dask_array"):
        frame, taken = logits, [name for name in named.values() if isinstance(name, str)]
        named = {r: frame[name] if isinstance(name, str) else name for r, name in named.items()}
        logits = frame[list(columns or [c for c in frame.columns if c not in taken])]
    found = {role: _chunked(da, values) for role, values in named.items() if values is not None}
    own = _chunked(da, logits)
    return replace(own, **found)  # type: ignore[arg-type]  # by role


def _chunked(da: Any, values: Any) -> Chunked:
    array = values.to_dask_array(lengths=True) if hasattr(values, "to_dask_array") else values
    array = da.asarray(array)
    if array.ndim == 2 and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})  # a row is in one chunk
    if any(np.isnan(size) for size in array.shape):
        array = array.compute_chunk_sizes()
    token = f"{array.name}-{next(_numbers)}"
    return Chunked(token, tuple(map(int, array.shape)), np.dtype(array.dtype), array)
