""".npz and .npy: arrays of NumPy, without pickle, and no larger than the file can hold."""

import zipfile
from collections.abc import Sequence
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.tables.source import Arrays, Source, bare_source, check_expansion, damage


def read_npz(file: IO[bytes], title: str) -> Source:
    """Return the arrays of an .npz; each is read when it is asked for."""
    with damage(title, ".npz", "Was it cut short?"):
        archive = zipfile.ZipFile(file)
        members: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in members:
                raise FileFormatError(
                    f"cannot read {title}: it holds {name} twice. Write it anew with np.savez."
                )
            members[name] = info

    def load(names: Sequence[str]) -> Arrays:
        arrays = {}
        for name in names:
            info = members[name]
            check_expansion(title, f"array {name}", info.compress_size, info.file_size)
            with damage(title, ".npz", "Was it cut short?"), archive.open(info) as member:
                arrays[name] = _read_array(member, info.file_size, f"{title} (array {name})")
        return arrays

    return Source(title, tuple(members), load)


def read_npy(file: IO[bytes], title: str) -> Source:
    """Return the one array of an .npy."""
    with damage(title, ".npy", "Was it cut short?"):
        file.seek(0, 2)
        size = file.tell()
        file.seek(0)
        return bare_source(title, _read_array(file, size, title))


def _read_array(file: IO[bytes], size: int, title: str) -> NDArray[np.generic]:
    """Return one array in NumPy's format, sure beforehand that its bytes are there."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError("an unknown version")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, column_major, dtype = read(file)
    if dtype.hasobject:
        raise FileFormatError(
            f"cannot read {title}: it holds Python objects, which are not read. Save plain numbers,"
            " and names as text: np.array(names, dtype=str)."
        )
    count = 1
    for length in shape:
        count *= length
    if min(shape, default=0) < 0 or count * dtype.itemsize > size:
        raise FileFormatError(
            f"cannot read {title}: not a whole .npy file, {count * dtype.itemsize} bytes were"
            f" announced and fewer are there. Was it cut short?"
        )
    array = np.empty(count, dtype)
    fill(array.view(np.uint8) if array.size else np.empty(0, np.uint8), file)
    ordered = array.reshape(shape[::-1]).T if column_major else array.reshape(shape)
    return ordered if ordered.dtype.isnative else ordered.astype(ordered.dtype.newbyteorder("="))


def fill(target: NDArray[np.uint8], file: IO[bytes]) -> None:
    """Read bytes until the target is full."""
    view, at = memoryview(target), 0  # type: ignore[arg-type]
    while at < len(view):
        got = file.readinto(view[at:])  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        at += got
