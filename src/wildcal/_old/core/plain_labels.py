"""One label for each row, as a number or a name; rows of labels get a true answer instead."""

import sys
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.kinds import MULTI_LABEL

_MULTI = f"This is multi-label: {MULTI_LABEL}, with kind='score' and labels 0 and 1."
_SOFT = (
    "Repeat each row once for every class with its share as sample_weight: that is the same loss."
)


def plain_labels(y: ArrayLike) -> NDArray[Any]:
    """Return labels as a 1-D array of int64 or of strings (dtype object); soft ones are refused."""
    # Who has a masked array has imported numpy.ma, which is slow.
    if "numpy.ma" in sys.modules and isinstance(y, np.ma.MaskedArray):
        raise ValueError("labels must not be masked. Drop the masked rows, or give them -1.")
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        _refuse_rows_of_labels(array)
    if array.ndim != 1:
        raise ValueError(f"labels must have shape (n_samples,), got {array.shape}.")
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return _whole_numbers(array.astype(np.float64))
    if array.dtype.kind not in "USTO":
        raise ValueError(f"labels must be whole numbers or names, got dtype {array.dtype}.")
    return _named(array)


def _named(array: NDArray[Any]) -> NDArray[Any]:
    items = [
        label.decode("utf-8", "replace") if isinstance(label, bytes) else label for label in array
    ]
    for row, label in enumerate(items):
        if label is None or label != label or (isinstance(label, str) and not label.strip()):
            _no_label(row)
        if not isinstance(label, str | int | float | np.generic):
            raise ValueError(
                f"labels must be one name or number per row, but row {row} is"
                f" {type(label).__name__} {label!r:.60}. Several labels in a row? {_MULTI}"
            )
    texts = [str(int(i)) if isinstance(i, bool | np.bool_) else str(i) for i in items]
    if all(is_whole(text) for text in texts):
        return np.array([int(float(text)) for text in texts], dtype=np.int64)
    return np.array(texts, dtype=object)


def _whole_numbers(array: NDArray[np.float64]) -> NDArray[np.int64]:
    missing = np.flatnonzero(np.isnan(array))
    if len(missing):
        _no_label(int(missing[0]))
    broken = np.flatnonzero(array != np.round(array))
    if len(broken):
        row = int(broken[0])
        soft = array.min() >= 0 and array.max() <= 1
        raise ValueError(
            f"labels must be whole numbers, but row {row} is {array[row]:.4g}."
            + (f" Soft labels? {_SOFT}" if soft else " A column of scores? Name it with columns=.")
        )
    if np.abs(array).max(initial=0) > 2**53:
        raise ValueError(f"labels must be whole numbers, got {np.abs(array).max():g}.")
    return array.astype(np.int64)


def _refuse_rows_of_labels(array: NDArray[Any]) -> NoReturn:
    start = f"labels must have shape (n_samples,), got {array.shape}:"
    numbers = array.dtype.kind in "biuf"
    if numbers and np.isin(array, (0, 1)).all():
        sums = array.sum(axis=1)
        if (sums == 1).all():
            raise ValueError(f"{start} one-hot rows. Pass y.argmax(axis=1).")
        row = int(np.flatnonzero(sums != 1)[0])
        raise ValueError(f"{start} row {row} has {int(sums[row])} labels. {_MULTI}")
    if numbers and (array >= 0).all() and (np.abs(array.sum(axis=1) - 1) <= 1e-2).all():
        raise ValueError(f"{start} soft labels, shares that sum to 1. {_SOFT}")
    raise ValueError(f"{start} one label per row is wanted. Several in a row? {_MULTI}")


def _no_label(row: int) -> NoReturn:
    raise ValueError(
        f"row {row} has no label. Drop it, or give it -1 if it belongs to none of the classes."
    )


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number as tables write it: 3, -1 or 3.0."""
    digits = text.removeprefix("-").removesuffix(".0")
    return digits.isascii() and digits.isdigit() and len(digits) < 16
