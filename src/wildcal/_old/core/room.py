"""Whether there is room for all rows of a source, asked before they are read and not after."""

import os
from pathlib import Path
from typing import Final

from wildcal._old.core.errors import TooLargeError
from wildcal._old.core.parallel import thread_count
from wildcal._old.core.rows import Rows

# A fit that holds the rows makes something of them, too.
_TIMES: Final = 2.0
# What a fit by isotonic regressions over all classes takes for a row that it holds some numbers of,
# and for a pair (row, class) of those that a thread sorts at a time; with weights there is one.
_ROW_BYTES: Final = 160
_PAIR_BYTES, _WEIGHED_PAIR_BYTES, _MOST_PAIRS = 24, 48, 1 << 23
# It walks over all rows twice for each so many: with fewer at a time it would take for ever.
_LEAST_ROWS: Final = 1 << 20
# Of the memory that is left, what it takes at most, if these fit.
_SHARE: Final = 0.5
# A score with its weights, and what sorting it, and a rank metric of it, takes.
_SCORE_BYTES: Final = 104
# So few scores are held without a look at the memory that is left.
_FEW_SCORES: Final = 1 << 20
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


def check_thin(rows: Rows, who: str) -> None:
    """Raise one line, and read nothing, where there is no room for some numbers of some rows."""
    if rows.in_memory:
        return
    size, free = _pair_bytes(rows) + _ROW_BYTES * min(len(rows), _LEAST_ROWS), free_bytes()
    if size > free:
        raise TooLargeError(
            f"{who} works on {size / 1e9:.3g} GB at a time, whatever the number of rows: there is"
            f" room for {free / 1e9:.3g} GB. Give it fewer threads, or take a method that holds"
            " less: docs/scale.md lists them."
        )


def ones_at_once(rows: Rows) -> int:
    """Return of how many rows some numbers are held at a time: of all, where they are arrays."""
    if rows.in_memory:
        return len(rows)
    room = _SHARE * free_bytes() - _pair_bytes(rows)
    return int(min(len(rows), max(_LEAST_ROWS, room // _ROW_BYTES)))


def _pair_bytes(rows: Rows) -> int:
    all_pairs = len(rows) * max(4, rows.n_classes)
    if rows.weight is not None:
        return _WEIGHED_PAIR_BYTES * min(all_pairs, _MOST_PAIRS)
    return _PAIR_BYTES * min(all_pairs, _MOST_PAIRS * thread_count())


def check_scores(count: int, each: int = _SCORE_BYTES) -> None:
    """Raise one line where there is no room to work with so many distinct confidences."""
    if count <= _FEW_SCORES:
        return
    size, free = each * count, free_bytes()
    if size > free:
        raise TooLargeError(
            f"there are {count:,} distinct confidences so far, which take {size / 1e9:.3g} GB to"
            f" sort: there is room for {free / 1e9:.3g} GB. Leave out the metrics and methods that"
            " hold them (docs/scale.md lists them), or round the logits to float16."
        )


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
