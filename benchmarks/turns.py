"""What small benchmarks share: one thread, turns of processor time, options and a csv.

To be imported before NumPy, whose threads are set by the environment.
"""

import argparse
import csv
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Key = TypeVar("Key")

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "WILDCAL_THREADS"):
    os.environ[name] = "1"


def options_of(text: str | None, turns: int) -> argparse.ArgumentParser:
    """Return what reads the options that all have; the first line of a text says what it does."""
    parser = argparse.ArgumentParser(description=(text or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=turns)
    parser.add_argument("-o", "--output", type=Path)
    return parser


def least(calls: Mapping[Key, Callable[[], object]], turns: int) -> dict[Key, float]:
    """Return the least processor time of each call, all of them taking turns."""
    found = dict.fromkeys(calls, math.inf)
    for _ in range(turns):
        for which, call in calls.items():
            start = time.process_time()
            call()
            found[which] = min(found[which], time.process_time() - start)
    return found


def keep(table: Iterable[tuple[Any, ...]], path: Path | None) -> None:
    """Write a table with its header, if there is a place for it."""
    if path is not None:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(table)
