"""Where files are looked for, and what is said when they are not there or are wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_labels
from wildcal._old.core.errors import FileFormatError


def find(
    what: str,
    url: str,
    candidates: Sequence[Path],
    good: Callable[[Path], bool] = Path.is_file,
) -> Path:
    """Return the first good path; the error lists the places and where the data are published."""
    for path in candidates:
        if good(path):
            return path
    raise FileNotFoundError(
        f"{what} was not found: looked for {', '.join(map(str, candidates))}."
        f" It is published at {url}; unpack it and give its folder."
    )


def check_size(path: Path, largest: int) -> int:
    """Return the size of a file in bytes, if it is one that may be read into memory."""
    size = path.stat().st_size
    if size > largest:
        raise FileFormatError(
            f"{path} has {size:,} bytes; a published file has at most {largest:,}."
            " Is it another file?"
        )
    return size


def labels_of(path: Path, values: Any, n_rows: int, n_classes: int) -> NDArray[np.int64]:
    """Return the labels read from a file, one for each image and all of them classes."""
    try:
        return check_labels(values, n_rows, n_classes, accepts_ood=False)
    except (ValueError, OverflowError) as error:
        raise FileFormatError(f"{path} has wrong labels: {error}") from error
