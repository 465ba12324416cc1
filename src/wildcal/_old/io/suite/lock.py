"""One writer for a folder at a time, and a way to see whether there is one.

The lock lies on the folder itself, so it leaves no file, and the system takes it back when the
process ends, however it ends.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


@contextmanager
def writing(folder: str | Path) -> Iterator[None]:
    """Hold the folder; raise if another process holds it.

    Where the system or the file system knows no locks, nothing is held.
    """
    held = _take(Path(folder))
    if held == _BUSY:
        raise ValueError(
            f"another extraction is writing to {folder}; wait for it, or choose another folder."
        )
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def is_written(folder: str | Path) -> bool:
    """Return whether a process is writing to the folder, as far as the system can tell."""
    if not Path(folder).is_dir():
        return False
    held = _take(Path(folder))
    if held is not None and held != _BUSY:
        os.close(held)
    return held == _BUSY


_BUSY = -1


def _take(folder: Path) -> int | None:
    """Return a descriptor that holds the lock, `_BUSY`, or None where there are no locks."""
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return _BUSY
    except OSError:  # some network file systems
        os.close(descriptor)
        return None
    return descriptor
