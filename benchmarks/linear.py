"""Whether the work of a fit grows like its rows: nanoseconds an entry at a few sizes.

    python benchmarks/linear.py --output benchmarks/linear.csv

Processor time on one thread, the least of a few turns in which all sizes take part. The passes over
the rows are counted too, because a fit that needs one more of them takes longer an entry.
"""

import argparse
import csv
import os
import time
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported
os.environ["WILDCAL_THREADS"] = "1"

import numpy as np
from peers import make_rows

from wildcal import CALIBRATORS
from wildcal.core import blocks
from wildcal.core.block import Block

CLASSES = 10


def passes_of(method: str, z: np.ndarray, y: np.ndarray) -> float:
    """Return how often a fit reads all rows."""
    rows = [0]

    class Counting(Block):
        def __init__(self, source, start, stop, scratch):
            rows[0] += stop - start
            super().__init__(source, start, stop, scratch)

    blocks.Block = Counting
    try:
        CALIBRATORS[method]().fit(z, y)
    finally:
        blocks.Block = Block
    return rows[0] / len(y)


def main() -> None:
    """Measure, print, and write a csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", nargs="+", default=["ts", "energy"])
    parser.add_argument("--rows", nargs="+", type=int, default=[200_000, 1_000_000, 5_000_000])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    z, y = make_rows(max(options.rows), CLASSES)
    table = [("method", "rows", "ns", "passes")]
    for method in options.method:
        least = dict.fromkeys(options.rows, np.inf)
        for _ in range(options.turns):
            for n in options.rows:
                start = time.process_time()
                CALIBRATORS[method]().fit(z[:n], y[:n])
                least[n] = min(least[n], time.process_time() - start)
        for n, seconds in least.items():
            passes = passes_of(method, z[:n], y[:n])
            table.append((method, n, f"{1e9 * seconds / n / CLASSES:.3g}", f"{passes:.3g}"))
            print(*table[-1], flush=True)
    if options.output:
        with options.output.open("w", newline="") as file:
            csv.writer(file).writerows(table)


if __name__ == "__main__":
    main()
