"""Where the bytes of a suite lie: a folder of .npy files, or one .npz with the same members."""

import stat
import threading
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.suite.arrays import NpyHeader, read_header
from wildcal._old.io.suite.manifest import LARGEST_MANIFEST, MANIFEST
from wildcal._old.io.suite.unpacked import Unpacked

# A packed array is decompressed in memory as a whole; a folder has no such limit.
LARGEST_MEMBER = 1 << 31
# Decompressed and converted arrays are kept up to this many bytes in all: a suite of CIFAR size
# as a whole, of a larger one the first splits. Keeping the first rather than the latest helps who
# walks over all splits again and again, once for each method.
KEPT_BYTES = 1 << 28
# A header unpacks from fewer packed bytes than this.
_HEADER_BYTES = 1 << 13

Shape = tuple[int, ...]


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a damaged file makes the standard library raise into one sentence."""
    try:
        yield
    except (FileFormatError, MemoryError):
        raise
    except Exception as error:
        text = " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__
        raise FileFormatError(f"cannot read {what} of {path}: {text}.") from error


class SuiteFiles(ABC):
    """The files of one suite, read by their plain names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept: dict[str, NDArray[Any]] = {}
        self._n_kept = 0

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Make reading many arrays in a row cheap."""
        yield

    @abstractmethod
    def manifest(self) -> bytes:
        """Return the bytes of the manifest."""

    @abstractmethod
    def header(self, name: str) -> tuple[NpyHeader, int]:
        """Return the header of an array and the number of bytes its file really has."""

    @abstractmethod
    def _read(self, name: str, types: Collection[str], shape: Shape) -> NDArray[Any]:
        """Return an array, or raise a ValueError unless its type, shape and length are right."""

    def check(self, name: str, types: Collection[str], shape: Shape) -> NpyHeader:
        """Return the header of an array, or raise unless its type, shape and length are right."""
        with reading(self.path, name):
            header, size = self.header(name)
            _compare(header, size, types, shape)
        return header

    def array(self, name: str, types: Collection[str], shape: Shape) -> NDArray[Any]:
        """Return an array as it is stored; from a folder it is mapped, not read."""
        with reading(self.path, name):
            return self._read(name, types, shape)

    def keep(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return make(), remembered as long as there is room; nobody may write to it."""
        found = self._kept.get(name)
        if found is None:
            found = make()
            found.setflags(write=False)
            # Mapping a file once more costs nothing.
            if not isinstance(found, np.memmap) and self._n_kept + found.nbytes <= KEPT_BYTES:
                self._kept[name] = found
                self._n_kept += found.nbytes
        return found


@final
class FolderFiles(SuiteFiles):
    """A folder: arrays are mapped into memory, so that a suite may be larger than it."""

    def _file(self, name: str) -> Path:
        path = self.path / name
        info = path.stat()  # before it is opened: a named pipe would keep us waiting
        if not stat.S_ISREG(info.st_mode):
            raise ValueError("it is not a regular file")
        if path.resolve().parent != self.path.resolve():
            raise ValueError("it is a link that leads out of the folder")
        return path

    def manifest(self) -> bytes:
        """Return the bytes of the manifest."""
        if not (self.path / MANIFEST).exists():
            raise FileFormatError(_no_manifest(self.path))
        with reading(self.path, MANIFEST), self._file(MANIFEST).open("rb") as file:
            return file.read(LARGEST_MANIFEST + 1)

    def header(self, name: str) -> tuple[NpyHeader, int]:
        """Return the header of an array and the number of bytes its file really has."""
        try:
            path = self._file(name)
        except FileNotFoundError:
            raise ValueError("the file is not there") from None
        with path.open("rb") as file:
            return read_header(file), path.stat().st_size

    def _read(self, name: str, types: Collection[str], shape: Shape) -> NDArray[Any]:
        header = self.check(name, types, shape)
        return np.memmap(
            self.path / name, header.descr, mode="r", offset=header.offset, shape=header.shape
        )


@final
class PackedFiles(SuiteFiles):
    """One .npz: arrays are decompressed when asked for.

    The file is opened anew for each array, so a suite can be read by several threads and handed to
    other processes. Reading the list of members costs more than reading one of them, hence
    `opened`.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._archives: dict[int, zipfile.ZipFile] = {}  # by thread

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keep the file open for this thread, which reads many members."""
        thread = threading.get_ident()
        if thread in self._archives:
            yield
            return
        with reading(self.path, "the list of members"):
            archive = zipfile.ZipFile(self.path)
        with archive:
            self._archives[thread] = archive
            try:
                yield
            finally:
                del self._archives[thread]

    @contextmanager
    def _member(self, name: str, most: int = -1) -> Iterator[tuple["Unpacked", int]]:
        """Hand out a member of which at most so many packed bytes are read, and its length."""
        kept = self._archives.get(threading.get_ident())
        with nullcontext(kept) if kept else zipfile.ZipFile(self.path) as archive:
            if len(archive.NameToInfo) != len(archive.filelist):
                raise ValueError("some member occurs twice")
            info = archive.NameToInfo.get(name)
            if info is None and name == MANIFEST:
                raise FileFormatError(_no_manifest(self.path))
            if info is None:
                raise ValueError("the member is not there")
            if info.file_size > LARGEST_MEMBER:
                raise ValueError(f"it claims {info.file_size} bytes, more than {LARGEST_MEMBER}")
            assert archive.fp is not None
            yield Unpacked(archive.fp, info, most), info.file_size

    def manifest(self) -> bytes:
        """Return the bytes of the manifest."""
        with reading(self.path, MANIFEST), self._member(MANIFEST) as (file, size):
            data = file.read(LARGEST_MANIFEST + 1)
            if size <= LARGEST_MANIFEST:
                file.finish()
            return data

    def header(self, name: str) -> tuple[NpyHeader, int]:
        """Return the header of an array and the number of bytes its member claims to have."""
        with self._member(name, _HEADER_BYTES) as (file, size):
            return read_header(file), size

    def _read(self, name: str, types: Collection[str], shape: Shape) -> NDArray[Any]:
        with self._member(name) as (file, size):
            header = read_header(file)
            _compare(header, size, types, shape)
            data = file.read(size - header.offset)
            if len(data) < size - header.offset:
                raise ValueError("it is cut short")
            file.finish()
        return np.frombuffer(data, header.descr).reshape(header.shape)


def _compare(header: NpyHeader, size: int, types: Collection[str], shape: Shape) -> None:
    """Raise a ValueError unless an array is as the manifest says and its file as long as it."""
    if header.descr not in types:
        raise ValueError(f"it must hold {' or '.join(types)}, got {header.descr}")
    if header.shape != shape:
        raise ValueError(f"it must have shape {shape}, got {header.shape}")
    if header.size != size:
        raise ValueError(f"it must have {header.size} bytes, got {size}; was it cut short?")


def _no_manifest(path: Path) -> str:
    return (
        f"{path} is not a suite: it has no {MANIFEST}. `wildcal suite make` makes one of files of"
        " rows."
    )


def suite_files(path: str | Path) -> SuiteFiles:
    """Return the files of the suite at a path, which is a folder or a .npz."""
    path = Path(path)
    if path.is_dir():
        return FolderFiles(path)
    if not path.exists():
        raise FileFormatError(f"{path} does not exist.")
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise FileFormatError(f"{path} is not a suite: neither a folder nor a whole .npz.")
    return PackedFiles(path)
