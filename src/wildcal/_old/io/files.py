"""Write a file whole or not at all."""

import errno
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from wildcal._old.core.errors import FileFormatError

try:
    import fcntl
except ImportError:  # Windows, where nothing is swept
    fcntl = None  # type: ignore[assignment]

# Seconds after which a temporary file without a writer is a leftover.
_OLD = 60.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: str | Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it on success, remove it on any exception.

    The temporary name keeps the ending of the real one, because some writers look at it. With
    `sync` the bytes are on disk before the name is, so that not even a power cut leaves half a
    file.
    """
    check_writable(path)
    target = Path(path).resolve()  # through a link, so that the link stays one
    _sweep(target)
    handle, name = tempfile.mkstemp(
        prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent
    )
    temporary = Path(name)
    held = _lock(handle)
    if not held:
        os.close(handle)  # Windows renames no open file
    try:
        yield temporary
        temporary.chmod(_mode(target))
        if sync:
            to_disk(temporary)
        temporary.replace(target)
        if sync:
            to_disk(target.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if is_full(error):
            raise OSError(f"cannot write {path}: no space is left there.") from error
        raise
    finally:
        if held:
            os.close(handle)


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a file found no room; it seldom says which file."""
    if not isinstance(error, OSError):
        return False
    # NumPy counts what it could not write, and gives no number of an error.
    return error.errno in _NO_ROOM or "requested and" in str(error)


def standard_input() -> IO[bytes]:
    """Return the bytes of standard input, which a shell may have closed."""
    if sys.stdin is None:
        raise OSError("standard input is closed; pipe rows into the command, or give it a file.")
    return sys.stdin.buffer


def _lock(handle: int) -> bool:
    """Say that a temporary file has a living writer; return False if another has said so."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another writer, or a file system without locks
        return False
    return True


def _sweep(target: Path) -> None:
    """Remove what killed writers of this file left: old temporary names that nobody holds."""
    named = re.compile(re.escape(f".{target.name}.") + "[a-z0-9_]{8}" + re.escape(target.suffix))
    for left in target.parent.iterdir():
        if not named.fullmatch(left.name):
            continue
        with suppress(OSError):  # gone, or not ours to touch
            if time.time() - left.stat().st_mtime < _OLD:
                continue  # perhaps just made, and not yet locked
            handle = os.open(left, os.O_RDWR)
            try:
                if _lock(handle):
                    left.unlink()
            finally:
                os.close(handle)


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    folder = path.is_dir()
    if folder and os.name == "nt":
        return  # where a folder cannot be opened
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_writable(path: str | Path) -> None:
    """Raise an OSError that says why nothing could be written there."""
    target = Path(path)
    if not target.resolve().parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {target}: the folder {target.parent} does not exist."
        )
    try:  # what os.access says is not true of all file systems, nor for root
        with tempfile.TemporaryFile(dir=target.resolve().parent):
            pass
    except OSError as error:
        if is_full(error):
            raise OSError(f"cannot write {target}: no space is left there.") from error
        raise PermissionError(f"cannot write {target}: the folder is not writable.") from error
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder.")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"cannot write {target}: it is not a regular file.")


def _mode(target: Path) -> int:
    """Return the permissions of the file to be replaced, or those any new file would have."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)  # there is no way to read it without setting it
    os.umask(umask)
    return 0o666 & ~umask


def refuse_external_data(path: Path) -> None:
    """Raise if an ONNX file keeps weights in other files, or is larger than any message.

    The other files may be any of the machine.
    """
    if (size := path.stat().st_size) > 2 << 30:
        raise FileFormatError(
            f"cannot read {path} as an ONNX network: it has {size:,} bytes, and none has more than"
            f" {2 << 30:,}."
        )
    # The first field of an entry of `external_data` (onnx.proto): the key "location".
    if b"\x0a\x08location" in path.read_bytes():
        raise FileFormatError(
            f"{path} keeps weights in other files, which are not read; save it as one file."
        )
