"""What comes with scores: weights, environments, distances and ids, one for each row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import FloatArray, Labels
from wildcal._old.core.checks import check_distances, check_weight


def check_length(what: str, values: NDArray[Any], n: int) -> None:
    """Raise unless there is one value for each row."""
    if values.ndim == 0 or len(values) != n:
        count = len(values) if values.ndim else 0
        raise ValueError(f"{what} must be one for each of the {n} rows of scores, got {count}.")


def read_weight(values: NDArray[Any] | None, n: int) -> FloatArray | None:
    """Return the weight of each row, or None."""
    if values is not None:
        check_length("weights", values, n)
    return check_weight(values, n)


def read_environment(values: NDArray[Any] | None, n: int) -> Labels | None:
    """Return the environment of each row as whole numbers, or None."""
    if values is None:
        return None
    check_length("environments", values, n)
    whole = values.dtype.kind in "iuf" and values.ndim == 1 and (values == np.round(values)).all()
    if not whole:
        raise ValueError(
            "environments must be whole numbers, 0 for the clean rows, got"
            f" {values.dtype} {values.shape}. Number them."
        )
    return values.astype(np.int64) if values.dtype.kind == "f" else values


def read_distances(values: NDArray[Any] | None, n: int) -> FloatArray | None:
    """Return the distances of each row, a column for each layer, or None."""
    if values is None:
        return None
    check_length("distances", values, n)
    return check_distances(values[:, None] if values.ndim == 1 else values, n)


def read_ids(values: NDArray[Any] | None, n: int) -> NDArray[Any] | None:
    """Return what each row is called, or None."""
    if values is not None:
        check_length("ids", values, n)
    return values
