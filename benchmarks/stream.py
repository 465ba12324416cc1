"""Ten million rows through a stream: rows per second, and memory that does not grow.

python benchmarks/stream.py
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import time
import tracemalloc

import numpy as np

import wildcal
from wildcal.evaluation import environments

ROWS = 10_000_000
CHUNK = 20_000


def main() -> None:
    suite = wildcal.suites.load("cifar10-resnet20")
    rows = environments(suite)
    calibrator = wildcal.ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)
    clean = suite.split("test").logits
    stream, rng = wildcal.Stream(calibrator), np.random.default_rng(0)
    stream.read(clean[rng.integers(0, len(clean), CHUNK)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    while stream.seen < ROWS:
        stream.read(clean[rng.integers(0, len(clean), CHUNK)])
    seconds = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{stream.seen:,} rows in {seconds:.1f} s, {stream.seen / seconds:,.0f} rows/s")
    print(f"peak memory grew by {grown / 1024:.1f} MB after the first {CHUNK:,} rows")
    assert grown < 50 * 1024, "memory must not grow with the stream"

    start = time.perf_counter()
    for row in clean[:2000]:
        stream.read(row[None])
    print(f"one row at a time: {1e6 * (time.perf_counter() - start) / 2000:.0f} µs per row")

    tracemalloc.start()
    kept = wildcal.Stream(calibrator)
    kept.read(clean[:10])
    print(f"a stream holds {tracemalloc.get_traced_memory()[0] / 1024:.0f} kB")


if __name__ == "__main__":
    main()
