"""The door of rows that are read piece by piece: their columns are looked at once, in one pass."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import OOD_LABEL, Column, FloatArray, Labels
from wildcal._old.core.checks import (
    check_clean,
    check_environment_numbers,
    check_labels,
    check_logits,
    check_weight,
)
from wildcal._old.core.columns import derived, map_columns
from wildcal._old.core.rows import CHECKS, Rows, distinct

# Larger weights are brought down, so that sums of them are finite.
_LARGEST_WEIGHT = 1e100


def check_source(
    source: Any,
    given: Mapping[str, Any],
    *,
    n_classes: int | None,
    accepts_ood: bool,
    who: str,
) -> Rows:
    """Return a source as checked rows; logits are looked at by the kernel, in the first pass."""
    n, k = _shape(source, n_classes)
    check_logits(source[: min(n, 64)], n_classes=n_classes)
    columns = {name: _as_column(name, c, n) for name, c in given.items() if c is not None}
    y, weight, environment = (columns.pop(name, None) for name in ("y", "weight", "environment"))
    rows = Rows(source, **{name: _checked(name, column) for name, column in columns.items()})
    if y is None:
        return rows
    labels = derived(lambda v: check_labels(v, len(v), k, accepts_ood=accepts_ood, who=who), y)
    known = map_columns(lambda v: int((v != OOD_LABEL).sum()), labels)
    if not known:
        raise ValueError("y must have some in-distribution rows, got -1 everywhere.")
    weights = None if weight is None else _weights(weight, labels)
    groups = None if environment is None else _environments(environment, labels, weights)
    return replace(rows, y=labels, weight=weights, environment=groups)


def _shape(source: Any, n_classes: int | None) -> tuple[int, int]:
    n, k = source.shape
    if np.dtype(source.dtype).kind != "f":
        raise ValueError(f"logits must be floating-point numbers, got dtype {source.dtype}.")
    if not n:
        raise ValueError(f"logits must have at least one row, got shape {source.shape}.")
    if n_classes is not None and k != n_classes:
        raise ValueError(f"logits must have {n_classes} columns, as in fit, got {k}.")
    return int(n), int(k)


def _as_column(name: str, column: Any, n: int) -> Column:
    found: Column = column if hasattr(column, "portable") else np.asarray(column)
    if len(found) != n:
        raise ValueError(f"{name} must have one value per row: {n} rows, {len(found)} values.")
    return found


def _checked(name: str, column: Column) -> Any:
    return derived(lambda values: CHECKS[name](values, len(values)), column)


def _weights(weight: Column, y: Labels) -> Any:
    def look(values: NDArray[Any], labels: Labels) -> FloatArray:
        if np.asarray(values).any():
            check_weight(values, len(labels))
        known = labels != OOD_LABEL
        return np.array([np.max(values), np.max(values[known], initial=0.0)], np.float64)

    most, most_known = map_columns(look, weight, y, combine=_largest)
    if most <= 0:
        raise ValueError("sample_weight must not be zero on every row.")
    if most_known <= 0:
        raise ValueError("sample_weight must not be zero on every in-distribution row.")
    unit = most if most > _LARGEST_WEIGHT else 1.0
    return derived(lambda values: values.astype(np.float64) / unit, weight)


def _largest(parts: Any) -> FloatArray:
    return np.asarray(np.max(parts, axis=0))


def _environments(environment: Column, y: Labels, weight: FloatArray | None) -> Any:
    """Return the environments numbered anew, 0 staying 0."""
    numbers = map_columns(check_environment_numbers, environment, combine=distinct)

    def clean(values: NDArray[Any], labels: Labels, *weights: FloatArray) -> NDArray[Any]:
        mine = (values == 0) & (labels != OOD_LABEL)
        return np.array([mine.sum(), sum((w[mine] > 0).sum() for w in weights)])

    beside = () if weight is None else (weight,)
    labeled, weighed = map_columns(clean, environment, y, *beside)
    check_clean(labeled > 0, weight is None or weighed > 0)
    return derived(
        lambda values: np.asarray(np.searchsorted(numbers, values), np.int64), environment
    )
