"""Whether there is room for all rows of a source, asked before they are read and not after."""

import os
from pathlib import Path
from typing import Final

from wildcal.core.errors import TooLargeError
from wildcal.core.rows import Rows

# A fit that holds the rows makes something of them, too.
_TIMES: Final = 2.0
_MEMORY: Final = Path("/proc/meminfo")
_STATUS: Final = Path("/proc/self/statm")
_GROUP: Final = Path("/sys/fs/cgroup")


def free_bytes() -> float:
    """Return how many bytes this process may still take; infinite where nobody says."""
    return min(_available(), _under_limit(), _in_group())


def loaded_for(rows: Rows, who: str) -> Rows:
    """Return rows as arrays; raise one line, and read nothing, where there is no room for them."""
    if rows.in_memory:
        return rows
    size = rows.logits.dtype.itemsize * rows.n_classes * len(rows)
    free = free_bytes()
    if _TIMES * size > free:
        every = int(_TIMES * size // max(free, 1)) + 1
        raise TooLargeError(
            f"{who} holds all rows, {size / 1e9:.3g} GB of logits, and works on them: there is room"
            f" for {free / 1e9:.3g} GB in all. Give it one row in {every}, source[::{every}] and"
            f" source.y[::{every}], or take a method that holds less, such as ts or context:"
            " docs/scale.md lists them."
        )
    return rows.loaded()


def _available() -> float:
    try:
        lines = _MEMORY.read_text().splitlines()
    except OSError:
        return float("inf")
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024.0 * int(found[0]) if found else float("inf")


def _under_limit() -> float:
    """Return what the limit of the address space leaves, as `ulimit -v` sets it."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        taken = int(_STATUS.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError):
        return float("inf")
    return float("inf") if limit == resource.RLIM_INFINITY else float(max(0, limit - taken))


def _in_group() -> float:
    """Return what the control group of a container leaves; files it has read make way."""
    try:
        most = int((_GROUP / "memory.max").read_text())
        lines = (_GROUP / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # there is none, or it says "max"
        return float("inf")
    taken = sum(int(line.split()[1]) for line in lines if line.startswith("anon "))
    return float(max(0, most - taken))
