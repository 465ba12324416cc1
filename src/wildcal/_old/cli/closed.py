"""Standard streams that a shell has closed, which Python shows as None."""

import io
import os
import sys
from pathlib import Path


class ClosedOutput(io.TextIOBase):
    """What stands for standard output that is closed: data that would be lost is an error."""

    def write(self, text: str) -> int:
        """Refuse what would go nowhere."""
        raise OSError("standard output is closed; send it to a file, or to /dev/null.")


def replace_closed() -> None:
    """Let talk to a closed stderr (``2>&-``) go nowhere, and data to a closed stdout be refused."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
