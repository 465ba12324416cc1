"""Many shards as one source: rows in the order of the names of their files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Logits
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.sources.part import Part


@dataclass(frozen=True)
class Shards:
    """Rows in many files: logits that are read when a slice is asked for, and their columns.

    Examples
    --------
    >>> import tempfile
    >>> from wildcal._old.io.sources import open_shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(3):
    ...         np.savez(f"{folder}/{i}.npz", logits=np.full((2, 4), float(i)), y=np.array([i, i]))
    ...     rows = open_shards(folder)
    ...     rows.shape, rows[1:4][:, 0].tolist(), rows.y[:].tolist()
    ((6, 4), [0.0, 1.0, 1.0], [0, 0, 1, 1, 2, 2])
    """

    parts: tuple[Part, ...]
    portable: bool = True

    def __post_init__(self) -> None:
        _check_alike(self.parts)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The number of the first row of each part, and of all rows."""
        return np.cumsum([0, *(part.n_rows for part in self.parts)])

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and classes."""
        return int(self.starts[-1]), self.parts[0].n_classes

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The precision that holds every shard's."""
        found = np.result_type(*{np.dtype(part.dtype) for part in self.parts})
        return found if found.kind == "f" else np.dtype(np.float64)

    @property
    def nbytes(self) -> int:
        """The bytes of the logits."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, rows: slice) -> Logits:
        """Return the logits of some rows."""
        return self.read("logits", rows, self.dtype)

    def read(self, role: str, rows: slice, dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
        """Return one column of some rows."""
        pieces = [self.parts[i].read(role, piece) for i, piece in self._found(rows)]
        if not pieces:
            return self.parts[0].read(role, slice(0, 0))
        found = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return found if dtype is None else found.astype(dtype, copy=False)

    def _found(self, rows: slice) -> Iterator[tuple[int, slice]]:
        """Yield which rows of which parts a slice is."""
        start, stop, step = rows.indices(len(self))
        if step < 1:
            raise ValueError(f"rows of shards are read forwards, got a step of {step}.")
        at = start
        while at < stop:
            i = int(np.searchsorted(self.starts, at, side="right")) - 1
            first, end = int(self.starts[i]), min(stop, int(self.starts[i + 1]))
            yield i, slice(at - first, end - first, step)
            at += step * -(-(end - at) // step)

    def _column(self, role: str) -> "ShardColumn | None":
        return ShardColumn(self, role) if role in self.parts[0].roles else None

    @property
    def y(self) -> "ShardColumn | None":
        """Labels."""
        return self._column("y")

    @property
    def weight(self) -> "ShardColumn | None":
        """Weights."""
        return self._column("weight")

    @property
    def environment(self) -> "ShardColumn | None":
        """Which rows belong together."""
        return self._column("environment")

    @property
    def distances(self) -> "ShardColumn | None":
        """To training rows, a column for each layer."""
        return self._column("distances")


@dataclass(frozen=True)
class ShardColumn:
    """What the shards know of each row, read when a slice is asked for."""

    shards: Shards
    role: str
    portable: bool = True

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return those of some rows."""
        return self.shards.read(self.role, rows)


def _check_alike(parts: Sequence[Part]) -> None:
    """Raise for the first part that is not like the others."""
    if not parts:
        raise FileFormatError("there are no shards.")
    first = parts[0]
    for part in parts[1:]:
        if part.n_classes != first.n_classes:
            raise FileFormatError(
                f"shards must have the same classes: {first.path} has {first.n_classes} columns,"
                f" {part.path} {part.n_classes}."
            )
        for role in sorted({*part.roles} ^ {*first.roles}):
            without = part if role in first.roles else first
            raise FileFormatError(
                f"shards must have the same columns: {without.path} has no {role}, others do."
            )
