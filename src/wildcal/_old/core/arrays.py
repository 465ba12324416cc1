"""Type aliases shared by every layer, and the one rule for output precision."""

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Logits: TypeAlias = NDArray[np.floating[Any]]
Proba: TypeAlias = NDArray[np.floating[Any]]
Labels: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]


class Source(Protocol):
    """Rows of logits that can be read more than once: an array, or what makes one of a slice."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and classes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what a slice returns."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def __getitem__(self, rows: slice, /) -> Logits:
        """Return some consecutive rows, or every so many."""


class Column(Protocol):
    """What is known of each row: an array, or what reads one of a slice."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Return some consecutive rows, or every so many."""


_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

OOD_LABEL = -1
"""The label of a semantic out-of-distribution row: it belongs to none of the classes."""


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the precision to compute in: float64 stays float64, everything else is float32."""
    return _FLOAT64 if dtype == _FLOAT64 else _FLOAT32
