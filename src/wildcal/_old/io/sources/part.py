"""A shard, or a piece of one: which rows it holds, and where in the file they are."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.files import file_hash

ROLES: Final = ("logits", "y", "weight", "environment", "distances")
# Files that are held open, and tables that are held in memory, of each process.
_OPEN_FILES: Final = 64
_TABLES: Final = 4


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells that a file is the one that was opened."""

    size: int
    time: int
    sha256: str | None = None
    """Of what is in it, where that is to be compared too."""

    @classmethod
    def of(cls, path: str, *, hashed: bool = False) -> "Stamp":
        """Return that of a file."""
        try:
            found = os.stat(path)  # noqa: PTH116  # once for each block
        except OSError:
            raise FileFormatError(
                f"cannot read the shard {path}: it is not there. It must be where every process"
                " that reads can see it."
            ) from None
        content = file_hash(Path(path)) if hashed else None
        return cls(found.st_size, found.st_mtime_ns, content)

    def check(self, path: str, *, begins: bool) -> None:
        """Raise if a file is not the one that was opened; its content counts where a walk begins.

        That is once in a pass.
        """
        hashed = begins and self.sha256 is not None
        found = Stamp.of(path, hashed=hashed)
        if (found.size, found.time) != (self.size, self.time):
            what = "its size or time"
        elif hashed and found != self:
            what = "its content"
        else:
            return
        raise FileFormatError(
            f"the shard {path} changed while it was read: {what} is another."
            " Start again when it is whole."
        )


@dataclass(frozen=True, slots=True)
class Plain:
    """An array that lies in a file as it does in memory, row after row."""

    path: str
    offset: int
    dtype: str
    width: int
    """Numbers of a row; 0 for an array of one axis."""
    upper_half: bool = False
    """Whether the numbers are the upper halves of float32, as bfloat16 is."""

    def read(self, start: int, stop: int, step: int) -> NDArray[Any]:
        """Return some of the rows."""
        dtype, width = np.dtype(self.dtype), max(1, self.width)
        row = dtype.itemsize * width
        if step == 1:
            found = self._bytes(start * row, (stop - start) * row)
        else:  # every so many: the rows between them are not read
            found = b"".join(self._bytes(i * row, row) for i in range(start, stop, step))
        array = np.frombuffer(found, dtype)
        if self.upper_half:
            array = (array.astype(np.uint32) << 16).view(np.float32)
        elif not dtype.isnative:
            array = array.astype(dtype.newbyteorder("="))
        return array.reshape(-1, self.width) if self.width else array

    def _bytes(self, at: int, size: int) -> bytes | bytearray:
        file, found, done = _file(self.path), bytearray(size), 0
        view = memoryview(found)
        while done < size:
            got = os.preadv(file.number, [view[done:]], self.offset + at + done)
            if not got:
                raise FileFormatError(f"cannot read the shard {self.path}: it was cut short.")
            done += got
        return found


class _Open:
    """An open file that is closed when nobody reads it any more, whichever thread was the last."""

    __slots__ = ("number",)

    def __init__(self, path: str) -> None:
        self.number = -1  # for __del__, if there is no such file
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


@lru_cache(_OPEN_FILES)
def _file(path: str) -> _Open:
    return _Open(path)


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of one file."""

    path: str
    n_rows: int
    n_classes: int
    dtype: str
    roles: tuple[str, ...]
    stamp: Stamp
    plain: Mapping[str, Plain] = field(default_factory=dict)
    """Where its arrays are; empty for a table, which is read whole."""
    piece: int | None = None
    """Which row group or record batch of a table it is; None for all of it."""
    beside: Mapping[str, Stamp] = field(default_factory=dict)
    """Of the columns that are in files of their own."""

    def read(self, role: str, rows: slice) -> NDArray[Any]:
        """Return some rows of one column; raise if the file is not the one that was opened."""
        start, stop, step = rows.indices(self.n_rows)
        if role in self.beside:
            self.beside[role].check(self.plain[role].path, begins=start == 0)
        else:
            self.stamp.check(self.path, begins=start == 0)
        if role in self.plain:
            return self.plain[role].read(start, stop, step)
        from wildcal._old.io.sources.tables import read_table

        return _table(read_table, self.path, self.piece, self.stamp)[role][start:stop:step]


@lru_cache(_TABLES)
def _table(read: Any, path: str, piece: int | None, stamp: Stamp) -> Mapping[str, NDArray[Any]]:
    found: Mapping[str, NDArray[Any]] = read(path, piece)
    return found
