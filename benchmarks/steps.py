"""What NumPy takes for each step of a softmax, in nanoseconds an entry: the floor under ours.

    python benchmarks/steps.py --output benchmarks/steps.csv

On a block as `map_blocks` cuts them, the least processor time of many turns. Below 64 classes a
block lies classes first, so it is turned before and after.
"""

import argparse
import csv
import os
import time
from collections.abc import Callable
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import numpy as np

from wildcal.core.block import CLASSES_FIRST_BELOW
from wildcal.core.blocks import block_rows

CLASSES = (10, 100, 1_000)


def steps(k: int) -> dict[str, Callable[[], object]]:
    """Return the steps of a block of k classes."""
    rng = np.random.default_rng(0)
    rows = block_rows(k)
    z = rng.standard_normal((rows, k), dtype=np.float32)
    wide, out = z.astype(np.float64), z.copy()
    if k < CLASSES_FIRST_BELOW:
        e, each = np.ascontiguousarray(z.T), z.max(axis=1)
        found: dict[str, Callable[[], object]] = {
            "turn": lambda: np.copyto(e, z.T),
            "largest": lambda: e.max(axis=0),
            "sum": lambda: np.add.reduce(e, 0),
            "turn back": lambda: np.copyto(out, e.T),
        }
    else:
        e, each, ones = z.copy(), z.max(axis=1)[:, None], np.ones(k, np.float32)
        found = {"largest": lambda: z.argmax(axis=1), "sum": lambda: np.vecdot(e, ones)}
    spare, small = e.copy(), -np.abs(e)
    return found | {
        "shift": lambda: np.subtract(e, each, out=spare),
        "scale": lambda: np.multiply(e, np.float32(0.5), out=spare),
        "exp": lambda: np.exp(small, out=spare),
        "divide": lambda: np.multiply(e, each, out=spare),
        "exp in float64": lambda: np.exp(wide, out=None),
    }


def main() -> None:
    """Measure, print, and write a csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=150)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    table = [("step", "classes", "ns")]
    for k in CLASSES:
        calls = steps(k)
        least = dict.fromkeys(calls, np.inf)
        for _ in range(options.turns):
            for step, call in calls.items():
                start = time.process_time()
                call()
                least[step] = min(least[step], time.process_time() - start)
        for step, seconds in least.items():
            table.append((step, k, f"{1e9 * seconds / k / block_rows(k):.2f}"))
            print(*table[-1], flush=True)
    if options.output:
        with options.output.open("w", newline="") as file:
            csv.writer(file).writerows(table)


if __name__ == "__main__":
    main()
