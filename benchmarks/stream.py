"""Rows through a stream: how many in a second of a processor, and memory that does not grow.

python benchmarks/stream.py --output benchmarks/stream.csv     both forms of context
python benchmarks/stream.py --rows 10000000                    ten million rows, and the memory
"""

import argparse
import csv
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import time
import tracemalloc

import numpy as np

import wildcal
from wildcal.evaluation import environments

CHUNK, TURNS, SINGLE = 20_000, 9, 300
FIELDS = ("method", "alarm", "rows_per_second", "one_row_us")


def speeds(calibrators, clean: np.ndarray):
    """Yield the speed of each method with each kind of alarm; the best of several turns."""
    rng = np.random.default_rng(0)
    rows = clean[rng.integers(0, len(clean), CHUNK)]
    for calibrator in calibrators:
        for alarm in ("sequential", "window"):
            stream = wildcal.Stream(calibrator, alarm=alarm)
            stream.read(rows)
            together, alone = [], []
            for _ in range(TURNS):
                start = time.process_time()
                stream.read(rows)
                middle = time.process_time()
                for row in rows[:SINGLE]:
                    stream.read(row[None])
                together.append((middle - start) / CHUNK)
                alone.append((time.process_time() - middle) / SINGLE)
            yield {
                "method": calibrator.name,
                "alarm": alarm,
                "rows_per_second": round(1 / min(together), -3),
                "one_row_us": round(1e6 * min(alone)),
            }


def long(calibrator, clean: np.ndarray, n: int) -> None:
    """Read so many rows, and say what memory they took."""
    stream, rng = wildcal.Stream(calibrator), np.random.default_rng(0)
    stream.read(clean[rng.integers(0, len(clean), CHUNK)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    while stream.seen < n:
        stream.read(clean[rng.integers(0, len(clean), CHUNK)])
    seconds = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{stream.seen:,} rows in {seconds:.1f} s, {stream.seen / seconds:,.0f} rows/s")
    print(f"peak memory grew by {grown / 1024:.1f} MB after the first {CHUNK:,} rows")
    assert grown < 50 * 1024, "memory must not grow with the stream"
    tracemalloc.start()
    kept = wildcal.Stream(calibrator)
    kept.read(clean[:10])
    print(f"a stream holds {tracemalloc.get_traced_memory()[0] / 1024:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--rows", type=int)
    options = parser.parse_args()
    suite = wildcal.suites.load("cifar10-resnet20")
    rows = environments(suite)
    calibrators = [
        method().fit(rows.logits, rows.y, environment=rows.environment)
        for method in (wildcal.ContextScaling, wildcal.FirstContextScaling)
    ]
    clean = suite.split("test").logits.astype(np.float32)
    if options.rows is not None:
        long(calibrators[0], clean, options.rows)
        return
    found = []
    for row in speeds(calibrators, clean):
        found.append(row)
        print(row, flush=True)
    if options.output is not None:
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    main()
