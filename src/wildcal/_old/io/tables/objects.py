"""Columns of Python values, as JSON and some frames have them, to arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_object_column(values: Sequence[Any]) -> NDArray[Any]:
    """Return a column of Python values as numbers, a matrix or objects, whatever they are.

    None is NaN among numbers. Lists of numbers of one length are the rows of a matrix.
    """
    known = [v for v in values if v is not None]
    if known and all(isinstance(v, bool | np.bool_) for v in known) and len(known) == len(values):
        return np.array(values, dtype=bool)
    if all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in known):
        if known and len(known) == len(values) and all(isinstance(v, int) for v in known):
            if all(abs(v) < 2**63 for v in known):
                return np.array(values, dtype=np.int64)
        return np.array([np.nan if v is None else _float(v) for v in values], dtype=np.float64)
    if known and len(known) == len(values) and all(_is_list(v) for v in known):
        lengths = {len(v) for v in known}
        if len(lengths) == 1 and all(_is_number(x) for v in known for x in v):
            return np.array(
                [[np.nan if x is None else _float(x) for x in v] for v in known], dtype=np.float64
            )
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)


def _is_number(value: Any) -> bool:
    return value is None or (
        isinstance(value, int | float | np.number) and not isinstance(value, bool)
    )


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of 400 digits
        return float("inf") if value > 0 else float("-inf")
