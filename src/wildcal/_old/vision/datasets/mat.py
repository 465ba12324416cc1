"""The arrays of numbers in a MATLAB 5 file, read without trusting any size in it.

SciPy's reader is made for one's own files: a few changed bytes in a file can crash the interpreter,
and a compressed part of kilobytes can fill gigabytes. Published data sets need little of the
format: variables that are plain arrays, compressed or not. That little is read here, from the
format's description by MathWorks ("MAT-File Format").
"""

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets.places import check_size

_HEADER = 128
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED = 1, 5, 6, 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_NUMERIC_CLASSES = range(6, 14)  # double, single and the integers up to 32 bits
_COMPLEX = 0x08
# Published files have a handful; a file may hold millions of empty ones, a microsecond each.
_MOST_ELEMENTS = 10_000


def read_mat(path: Path, largest: int) -> dict[str, NDArray[Any]]:
    """Return the real arrays of numbers in a file, by name; other variables are left out.

    Parameters
    ----------
    path
        A MATLAB 5 file.
    largest
        The most bytes that the file may have, both as it is and decompressed.
    """
    check_size(path, largest)
    data = memoryview(path.read_bytes())
    if bytes(data[:10]) != b"MATLAB 5.0" or bytes(data[126:128]) not in (b"IM", b"MI"):
        raise FileFormatError(f"cannot read {path}: it does not begin as a MATLAB 5 file.")
    order = "<" if bytes(data[126:128]) == b"IM" else ">"
    arrays: dict[str, NDArray[Any]] = {}
    room, at, n_elements = largest, _HEADER, 0
    try:
        while at < len(data):
            n_elements += 1
            if n_elements > _MOST_ELEMENTS:
                raise ValueError(f"it has more than {_MOST_ELEMENTS:,} elements")
            kind, body, at = _element(data, at, order)
            if kind == _COMPRESSED:
                plain = _inflate(body, room)
                room -= len(plain)
                kind, body, _ = _element(memoryview(plain), 0, order)
            if kind == _MATRIX:
                for name, array in _variable(body, order).items():
                    if name in arrays:
                        raise ValueError(f"it holds {name!r:.40} twice")
                    arrays[name] = array
    except (ValueError, zlib.error) as error:
        reason = str(error) if type(error) is ValueError else "a compressed part is damaged"
        raise FileFormatError(
            f"cannot read {path}: {reason}. Download the published file again."
        ) from error
    return arrays


def _element(data: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """Return the type and the content of the element at a place, and the place after it."""
    if len(data) - at < 8:
        raise ValueError("it is cut short")
    kind, size = (int(k) for k in np.frombuffer(data[at : at + 8], f"{order}u4"))
    if kind >> 16:  # four bytes or fewer are packed into the tag
        kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
    else:
        start, end = at + 8, at + 8 + size
    if start + size > min(end, len(data)):
        raise ValueError("it is cut short")
    # Elements inside a variable begin at multiples of eight; compressed ones are not padded.
    return kind, data[start : start + size], end if kind == _COMPRESSED else -(-end // 8) * 8


def _inflate(body: memoryview, room: int) -> bytes:
    stream = zlib.decompressobj()
    plain = stream.decompress(body, max(room, 1))
    if not stream.eof:
        raise ValueError("a compressed part is cut short, or larger than any published one")
    return plain


def _variable(body: memoryview, order: str) -> dict[str, NDArray[Any]]:
    """Return the one array of a variable under its name, or nothing if it is no array."""
    kind, flags, at = _element(body, 0, order)
    if kind != _UINT32 or len(flags) != 8:
        raise ValueError("a variable does not begin as one")
    flag = int(np.frombuffer(flags, f"{order}u4")[0])
    if flag & 0xFF not in _NUMERIC_CLASSES or flag >> 8 & _COMPLEX:
        return {}
    kind, dims, at = _element(body, at, order)
    if kind != _INT32 or len(dims) % 4 or not 8 <= len(dims) <= 32:
        raise ValueError("a variable has no shape")
    shape = tuple(int(k) for k in np.frombuffer(dims, f"{order}i4"))
    kind, name, at = _element(body, at, order)
    if kind != _INT8:
        raise ValueError("a variable has no name")
    kind, values, _ = _element(body, at, order)
    dtype = np.dtype(f"{order}{_NUMBERS[kind]}") if kind in _NUMBERS else None
    if dtype is None or min(shape) < 0 or math.prod(shape) * dtype.itemsize != len(values):
        raise ValueError(f"the shape {shape} of a variable does not fit its data")
    array = np.frombuffer(values, dtype).reshape(shape, order="F")
    return {bytes(name).decode("latin-1"): array}
