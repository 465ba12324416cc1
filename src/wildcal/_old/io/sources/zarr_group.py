"""Zarr: a group with arrays by their usual names, or one array of logits."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Logits
from wildcal._old.core.errors import FileFormatError, MissingExtraError
from wildcal._old.io.sources.part import ROLES
from wildcal._old.io.tables.naming import LOGIT_NAMES, ROLE_NAMES


@dataclass(frozen=True)
class ZarrColumn:
    """One array of a group, read when a slice is asked for."""

    path: str
    name: str
    portable: bool = True

    def __len__(self) -> int:
        return int(_array(self.path, self.name).shape[0])

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return some rows."""
        return np.asarray(_array(self.path, self.name)[rows])


@dataclass(frozen=True)
class ZarrRows:
    """Logits in a Zarr array, and the arrays beside them."""

    logits: ZarrColumn
    y: ZarrColumn | None = None
    weight: ZarrColumn | None = None
    environment: ZarrColumn | None = None
    distances: ZarrColumn | None = None
    portable: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and classes."""
        return tuple(_array(self.logits.path, self.logits.name).shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the array."""
        found: np.dtype[Any] = np.dtype(_array(self.logits.path, self.logits.name).dtype)
        return found

    def __len__(self) -> int:
        return len(self.logits)

    def __getitem__(self, rows: slice) -> Logits:
        """Return the logits of some rows."""
        return self.logits[rows]


def open_zarr(where: str | Path) -> ZarrRows:
    """Return the arrays of a Zarr group, or one array of logits, as a source."""
    path = str(where)
    opened = _open(path)
    if hasattr(opened, "shape"):
        return ZarrRows(ZarrColumn(path, ""))
    names = sorted(opened.array_keys())
    found: dict[str, ZarrColumn] = {}
    for role in ROLES:
        known = LOGIT_NAMES if role == "logits" else ROLE_NAMES[role]
        for name in names:
            if name.lower() in known:
                found[role] = ZarrColumn(path, name)
    if "logits" not in found:
        raise FileFormatError(f"{path} has no array called logits; it has {', '.join(names)}.")
    return ZarrRows(**found)  # type: ignore[arg-type]  # no role is `portable`


@lru_cache(16)
def _open(path: str) -> Any:
    try:
        import zarr
    except ImportError:
        raise MissingExtraError(
            'reading Zarr needs zarr. Install it with: pip install "wildcal[zarr]"'
        ) from None
    try:
        return zarr.open(path, mode="r")
    except Exception as error:
        raise FileFormatError(f"cannot read {path}: not a whole Zarr store.") from error


def _array(path: str, name: str) -> Any:
    opened = _open(path)
    return opened[name] if name else opened
