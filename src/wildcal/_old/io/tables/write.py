"""Results to .npz, .npy and .csv, whole or not at all."""

import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.core.labels import ClassNames
from wildcal._old.io.files import check_writable, replacing
from wildcal._old.io.tables.source import Arrays


def write_result(path: str | Path, arrays: Arrays, *, classes: ClassNames | None = None) -> None:
    """Write named arrays with equal numbers of rows to .npz, .csv, or the first of them to .npy.

    "-" writes the .csv to standard output. In a .csv a matrix with a column for each class is
    written as columns NAME_CLASS, by the names of the classes where they are given.
    """
    if str(path) == "-":
        text = io.StringIO(newline="")
        _write_lines(text, arrays, classes)
        sys.stdout.buffer.write(text.getvalue().encode())
        sys.stdout.buffer.flush()
        return
    path = Path(path)
    check_result(path)
    with replacing(path) as temporary:
        _WRITERS[path.suffix](temporary, arrays, classes)


def check_result(path: Path) -> None:
    """Raise if `write_result` could not write there."""
    if str(path) == "-":
        return
    if path.suffix not in _WRITERS:
        raise FileFormatError(
            f"cannot write {path}: its ending must be one of {', '.join(_WRITERS)}."
        )
    check_writable(path)


def _write_npz(path: Path, arrays: Arrays, classes: ClassNames | None) -> None:
    with path.open("wb") as file:
        # Names come as objects, which only pickle could write; as text they are plain.
        plain = {n: a.astype(str) if a.dtype == object else a for n, a in arrays.items()}
        np.savez(file, **plain)  # type: ignore[arg-type]  # its stub confuses **arrays with a flag


def _write_npy(path: Path, arrays: Arrays, classes: ClassNames | None) -> None:
    with path.open("wb") as file:
        np.save(file, next(iter(arrays.values())), allow_pickle=False)


def _write_csv(path: Path, arrays: Arrays, classes: ClassNames | None) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        _write_lines(file, arrays, classes)


def _write_lines(file: IO[str], arrays: Arrays, classes: ClassNames | None) -> None:
    columns: dict[str, NDArray[Any]] = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            columns[name] = values
        else:
            named = classes is not None and len(classes) == values.shape[1]
            words = classes.names if named and classes else range(values.shape[1])
            columns |= {f"{name}_{word}": values[:, k] for k, word in enumerate(words)}
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


_WRITERS: dict[str, Callable[[Path, Arrays, ClassNames | None], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".csv": _write_csv,
}
