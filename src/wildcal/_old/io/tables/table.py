"""Logits with labels, environments and distances as the commands take them, kinds not judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.tables.choose import choose, distance_columns
from wildcal._old.io.tables.naming import DISTANCE_NAMES, ENVIRONMENT_NAMES, LABEL_NAMES
from wildcal._old.io.tables.opening import open_source
from wildcal._old.io.tables.source import Source, few, named_after


@dataclass(frozen=True, slots=True)
class Table:
    """Logits of shape (n, K), with their labels and environments where the file has them."""

    logits: NDArray[Any]
    y: NDArray[Any] | None
    environment: NDArray[Any] | None = None
    """Which rows belong together; 0 for the clean ones."""
    distances: NDArray[Any] | None = None
    """Distances to training rows, a column for each layer."""


def read_table(path: str | Path, *, labels: str | Path | None = None) -> Table:
    """Return the logits, and the labels if there are any, from one file or two.

    A file with named arrays (.npz, .safetensors, .pt with a dict) holds `logits` and usually `y`.
    A table (.csv and its kin) has a column named `y` and one column per class, in class order. Both
    may have an `environment` of each row, which the method context learns from, and
    `distances` (in a table columns distance_1, distance_2, ...), which the method dac reads.
    A bare array (.npy, .pt with a tensor) holds logits only; give the labels with `labels`.
    """
    with open_source(path) as source, named_after(source.title):
        chosen = choose(source, "logits", None, {})
        y = chosen.roles.get("y")
        if source.columnar and y is not None and y.dtype.kind == "f":
            y = _whole(y, "y")
        environment = chosen.roles.get("environment")
        if source.columnar and environment is not None and environment.dtype.kind == "f":
            environment = _whole(environment, "environment")
    if labels is not None:
        y = read_labels(labels)
    return Table(chosen.scores, y, environment, chosen.roles.get("distances"))


def read_labels(path: str | Path) -> NDArray[Any]:
    """Return the labels in a file of their own: an array, or a table with a column `y`."""
    return _read_alone(Path(path), LABEL_NAMES, "labels")


def read_environments(path: str | Path) -> NDArray[Any]:
    """Return the environment of each row in a file of its own, as `read_labels` does."""
    return _read_alone(Path(path), ENVIRONMENT_NAMES, "environments")


def read_distances(path: str | Path) -> NDArray[Any]:
    """Return distances to training rows in a file of their own, a column for each layer."""
    path = Path(path)
    if path.name.endswith((".distances.npy", ".densities.npy")):
        raise FileFormatError(
            f"{path} looks like a part of a suite, with the distances of several neighbors side by"
            " side. Open the suite, and take the distances to one neighbor."
        )
    with open_source(path) as source, named_after(source.title):
        if source.bare:
            return source.load(source.names)[source.names[0]]
        names = distance_columns(source.names) if source.columnar else []
        if names:
            columns = list(source.load(names).values())
            return columns[0] if len(columns) == 1 else np.column_stack(columns)
        return _pick(source, DISTANCE_NAMES, "distances")


def _read_alone(path: Path, names: Sequence[str], what: str) -> NDArray[Any]:
    with open_source(path) as source, named_after(source.title):
        if source.bare:
            array = source.load(source.names)[source.names[0]]
            found = array.squeeze() if array.ndim == 2 else array
        else:
            found = _pick(source, names, what)
        # A file of text has no integers, only numbers that are whole.
        text = path.suffix in (".csv", ".tsv", ".gz") and found.dtype.kind == "f"
        return _whole(found, what) if text and (found == np.round(found)).all() else found


def _pick(source: Source, names: Sequence[str], what: str) -> NDArray[Any]:
    found = [name for name in source.names if name.lower() in names]
    if not found:
        raise ValueError(
            f"{source.title} has no {what}: expected an array named {' or '.join(names)}, found"
            f" {few(sorted(source.names))}."
        )
    return source.load(found[:1])[found[0]]


def _whole(values: NDArray[Any], name: str) -> NDArray[np.int64]:
    if not (values == np.round(values)).all():
        row = int(np.flatnonzero(values != np.round(values))[0])
        raise ValueError(f"column {name} must be integers, but row {row} is {values[row]:g}.")
    return values.astype(np.int64)
