"""Write files to a temporary name, then rename them, so that files are complete."""

import glob
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an OSError unless a file can be written to the folder of `path`."""
    tempfile.TemporaryFile(dir=Path(path).resolve().parent).close()


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`, and rename it to `path` when the block succeeds."""
    target = Path(path).resolve()  # a symbolic link is kept
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    encoding = None if "b" in mode else "utf-8"
    try:
        with temporary.open(mode.replace("w", "x"), encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of `path` that a killed process left."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        leftover.unlink(missing_ok=True)
