"""A folder that one server has to itself: a lock that ends with its process, however that ends."""

import os
import sys
import weakref
from pathlib import Path
from typing import Final

NAME: Final = "server.lock"
# Windows lets nobody read what is locked, so what is locked lies beyond what is written.
_FAR: Final = 1 << 20


class Held:
    """Holds a folder as long as it lives; raises a BlockingIOError if another server does.

    The file stays when the lock is gone, and locks nobody out. Where the file system knows no
    locks, nothing is held.
    """

    def __init__(self, folder: Path) -> None:
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o600)
        # Closed with us, and not inherited by commands that are told of alarms.
        close = weakref.finalize(self, os.close, handle)
        try:
            _lock(handle)
        except (BlockingIOError, PermissionError):
            who = os.pread(handle, 20, 0) if hasattr(os, "pread") else b""
            close()
            process = f" (process {int(who)})" if who.isdigit() else ""
            raise BlockingIOError(
                f"{folder} belongs to another server{process} that is still running; stop it, or"
                " give each server a state folder of its own."
            ) from None
        except OSError:  # some network file systems
            return
        os.ftruncate(handle, 0)
        os.write(handle, b"%d" % os.getpid())


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
