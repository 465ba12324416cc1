"""Results to .npz, .npy and .csv, whole or not at all."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.errors import FileFormatError
from wildcal.io.files import check_writable, replacing
from wildcal.io.tables.source import Arrays


def write_result(path: str | Path, arrays: Arrays) -> None:
    """Write named arrays with equal numbers of rows to .npz, .csv, or the first of them to .npy."""
    path = Path(path)
    check_result(path)
    with replacing(path) as temporary:
        _WRITERS[path.suffix](temporary, arrays)


def check_result(path: Path) -> None:
    """Raise if `write_result` could not write there."""
    if path.suffix not in _WRITERS:
        raise FileFormatError(
            f"cannot write {path}: its ending must be one of {', '.join(_WRITERS)}."
        )
    check_writable(path)


def _write_npz(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub confuses **arrays with a flag


def _write_npy(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        np.save(file, next(iter(arrays.values())), allow_pickle=False)


def _write_csv(path: Path, arrays: Arrays) -> None:
    columns: dict[str, NDArray[Any]] = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            columns[name] = values
        else:
            columns |= {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


_WRITERS: dict[str, Callable[[Path, Arrays], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".csv": _write_csv,
}
