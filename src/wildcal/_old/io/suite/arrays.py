"""The arrays of a suite: how logits and labels become bytes, and bytes arrays, without surprises.

Only plain `.npy` files are read: little-endian, in C order, of the types a suite uses. The header
is matched against that form and never evaluated, so nothing else in it can have an effect.
"""

import hashlib
import math
import re
import struct
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import OOD_LABEL, Labels, Logits
from wildcal._old.core.checks import check_labels, check_logits, row_slices

_MAGIC = b"\x93NUMPY"
# A header of ours has 128 bytes with all padding.
_LARGEST_HEADER = 4096
_HEADER = re.compile(
    r"\{'descr': '([<|][fiu][1248])', 'fortran_order': False, 'shape': \((\d{1,18}), ?(\d{1,18})?\)"
    r",? ?\} *\n?",
    re.ASCII,
)
LABEL_TYPES = ("|u1", "<u2", "<u4", "|i1", "<i2", "<i4")


class Readable(Protocol):
    """What bytes are read from, in their order."""

    def read(self, n: int, /) -> bytes:
        """Return the next n bytes, fewer at the end."""
        ...


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What the head of a .npy file says of the array, and where the array begins."""

    descr: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """The number of bytes of the whole file."""
        n_bytes = np.dtype(self.descr).itemsize
        for length in self.shape:
            n_bytes *= length
        return self.offset + n_bytes


def read_header(file: Readable) -> NpyHeader:
    """Return the header of a .npy file open at its beginning; raise a ValueError for any other."""
    head = file.read(8)
    if len(head) < 8 or head[:6] != _MAGIC:
        raise ValueError("it does not begin as a .npy file")
    form = {1: "<H", 2: "<I", 3: "<I"}.get(head[6])
    if form is None:
        raise ValueError(f"version {head[6]} of the .npy format is unknown")
    length = file.read(struct.calcsize(form))
    if len(length) < struct.calcsize(form):
        raise ValueError("it is cut short")
    (n,) = struct.unpack(form, length)
    if n > _LARGEST_HEADER:
        raise ValueError(f"its header claims {n} bytes")
    text = file.read(n)
    if len(text) < n:
        raise ValueError("it is cut short")
    match = _HEADER.fullmatch(text.decode("latin-1"))
    if match is None:
        raise ValueError("its header is not that of a plain array of numbers")
    shape = tuple(int(length) for length in match.groups()[1:] if length is not None)
    return NpyHeader(match[1], shape, 8 + len(length) + n)


def npy_header(array: NDArray[Any]) -> bytes:
    """Return the bytes before the array: the same under every version of NumPy."""
    text = f"{{'descr': {array.dtype.str!r}, 'fortran_order': False, 'shape': {array.shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


def stored_logits(logits: ArrayLike, n_classes: int, dtype: str) -> Logits:
    """Return logits as they are stored: checked, little-endian, in C order, of type `dtype`."""
    array = check_logits(logits)
    if array.shape[1] != n_classes:
        raise ValueError(f"logits must have {n_classes} columns, got {array.shape[1]}.")
    check_finite(array)
    with np.errstate(over="ignore"):  # looked for below
        stored = np.ascontiguousarray(array, np.dtype(dtype).newbyteorder("<"))
    if not np.isfinite(stored).all():
        largest = max(abs(float(array.max())), abs(float(array.min())))
        raise ValueError(
            f"logits must lie within ±{float(np.finfo(dtype).max):g} to be stored as {dtype},"
            f" got {largest:g}. Try a wider dtype."
        )
    return _keep_winners(array, stored) if stored.dtype.itemsize < array.dtype.itemsize else stored


def coarse_logits(logits: Logits, step: float) -> Logits:
    """Return logits as the nearest multiples of a step; the predicted classes stay.

    A power of two keeps all but huge ones exact in every type.
    """
    if not 0 < step <= 1 or math.frexp(step)[0] != 0.5:
        raise ValueError(f"step must be a power of two of at most 1, such as 0.125, got {step}.")
    coarse = np.empty_like(logits)
    for piece in row_slices(logits):
        coarse[piece] = np.rint(logits[piece].astype(np.float64) / step) * step
    return _keep_winners(logits, coarse)


def _keep_winners(logits: Logits, stored: Logits) -> Logits:
    """Return rounded logits whose largest are where they were.

    Rounding can make a class as large as the winner, which the first of them then would be. Such a
    rival is lowered to the next number below.
    """
    for piece in row_slices(logits):
        winners = logits[piece].argmax(axis=1)
        for row in np.flatnonzero(stored[piece].argmax(axis=1) != winners):
            values = stored[piece][row]
            winner = winners[row]
            rivals = np.flatnonzero(values[:winner] == values[winner])
            values[rivals] = np.nextafter(values[rivals], values.dtype.type(-np.inf))
    return stored


def check_finite(logits: Logits) -> None:
    """Raise unless every logit is a number."""
    for piece in row_slices(logits):
        finite = np.isfinite(logits[piece])
        if not finite.all():
            row = piece.start + int((~finite.all(axis=1)).argmax())
            raise ValueError(f"logits must be finite, but row {row} is not.")


def stored_labels(y: ArrayLike, n_rows: int, n_classes: int, shift: str) -> NDArray[Any]:
    """Return labels as they are stored: checked, of the smallest type that holds them.

    Rows of a semantic shift belong to no class, so their label is -1; all others have a class.
    """
    checked = check_labels(y, n_rows, n_classes, accepts_ood=True)
    check_shift_labels(checked, shift)
    low, high = int(checked.min()), int(checked.max())
    types = LABEL_TYPES[3:] if low < 0 else LABEL_TYPES[:3]
    descr = next(t for t in types if high <= np.iinfo(np.dtype(t)).max)
    return checked.astype(descr)


def check_shift_labels(y: Labels, shift: str) -> None:
    """Raise unless labels are -1 exactly in semantic splits."""
    n_ood = int((y == OOD_LABEL).sum())
    wanted = len(y) if shift == "semantic" else 0
    if n_ood != wanted:
        every = "every row" if wanted else "no row"
        raise ValueError(
            f"y must be -1 in {every} where shift is {shift!r}, got {n_ood} of {len(y)} rows."
        )


def stored_distances(
    distances: ArrayLike, n_rows: int, n_columns: int, dtype: str
) -> NDArray[np.floating[Any]]:
    """Return squared distances as they are stored: checked, little-endian, of type `dtype`."""
    array = np.asarray(distances)
    if array.dtype.kind != "f" or array.shape != (n_rows, n_columns):
        raise ValueError(
            f"distances must be decimal numbers of shape ({n_rows}, {n_columns}), a column for each"
            f" layer and rank, got {array.dtype} {array.shape}."
        )
    check_distances(array)
    with np.errstate(over="ignore"):  # looked for below
        stored = np.ascontiguousarray(array, np.dtype(dtype).newbyteorder("<"))
    if not np.isfinite(stored).all():
        raise ValueError(
            f"distances must lie below {float(np.finfo(dtype).max):g} to be stored as {dtype},"
            f" got {float(array.max()):g}. Try a wider dtype."
        )
    return stored


def check_distances(distances: NDArray[np.floating[Any]]) -> None:
    """Raise unless every distance is a number of at least 0."""
    for piece in row_slices(distances):
        good = np.isfinite(distances[piece]) & (distances[piece] >= 0)
        if not good.all():
            row = piece.start + int((~good.all(axis=1)).argmax())
            raise ValueError(f"distances must be finite and at least 0, but row {row} is not.")


def distances_hash(distances: NDArray[np.floating[Any]]) -> str:
    r"""Return the SHA-256 of one split's distances, in hexadecimal.

    It is taken over the line ``densities DTYPE ROWS COLUMNS\n`` in ASCII, then the distances as
    stored, little-endian, row by row.
    """
    rows, n_columns = distances.shape
    digest = hashlib.sha256(f"densities {distances.dtype.name} {rows} {n_columns}\n".encode())
    _update(digest, distances)
    return digest.hexdigest()


def _update(digest: "hashlib._Hash", array: NDArray[Any]) -> None:
    """Feed an array to a hash, little-endian, row by row."""
    for piece in row_slices(array, elements=1 << 18):
        block = array[piece]
        digest.update(np.ascontiguousarray(block, block.dtype.newbyteorder("<")).data.cast("B"))


def content_hash(logits: Logits, y: NDArray[Any]) -> str:
    r"""Return the SHA-256 of one split's content, in hexadecimal.

    It is taken over these bytes, in this order:

    1. the line ``logits DTYPE ROWS CLASSES\n`` in ASCII, such as ``logits float32 10000 10``,
    2. the logits as stored, little-endian, row by row,
    3. the line ``labels ROWS\n``,
    4. the labels as little-endian int64, whatever type they are stored in.
    """
    rows, n_classes = logits.shape
    digest = hashlib.sha256(f"logits {logits.dtype.name} {rows} {n_classes}\n".encode())
    _update(digest, logits)
    digest.update(f"labels {rows}\n".encode())
    digest.update(y.astype("<i8").tobytes())
    return digest.hexdigest()
