"""A .npy file as a memory map, after its header was compared with its size."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError


def map_npy(path: Path) -> NDArray[Any]:
    """Return the array of integers in a .npy file, mapped and not read.

    The header is believed only if the file is exactly as long as it says.
    """
    with path.open("rb") as file:
        try:
            version = npy_format.read_magic(file)
            if version == (1, 0):
                shape, by_columns, dtype = npy_format.read_array_header_1_0(file)
            elif version == (2, 0):
                shape, by_columns, dtype = npy_format.read_array_header_2_0(file)
            else:
                raise ValueError(f"unknown version {version}")
        except Exception as error:  # a header is Python text, and nonsense raises a dozen kinds
            raise FileFormatError(f"cannot read {path}: not a whole .npy file.") from error
        start = file.tell()
        file.seek(0, 2)
        held = file.tell() - start
    if dtype.kind not in "iu":
        raise FileFormatError(f"{path} must hold integers, got dtype {dtype}.")
    claimed = math.prod(shape) * dtype.itemsize
    if claimed != held or held == 0 or min(shape, default=0) < 0:
        raise FileFormatError(
            f"{path} must be as long as its header says, for {dtype} of shape {shape!r:.60},"
            f" got {held:,} bytes after it. Was it cut short?"
        )
    order = "F" if by_columns else "C"
    return np.memmap(path, dtype, "r", start, shape, order)  # type: ignore[call-overload, no-any-return]
