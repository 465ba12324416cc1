"""Predict and evaluate Parquet shards: time on two workers against one process, and peak memory.

python benchmarks/scale.py --rows 5000000 --output benchmarks/scale.csv
"""

import argparse
import csv
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from wildcal import TemperatureScaling, __version__, save

CLASSES = [f"class_{k}" for k in range(10)]
DECLARED = {"score_columns": CLASSES, "label_column": "label"}
N_FILES = 20
# Runs a function in a new process and prints its seconds and peak memory in MB.
TIMED = """
import resource, sys, time
{setup}
if __name__ == "__main__":
    start = time.perf_counter()
    {call}
    print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
PREDICT = "code = run(sys.argv[1:]); assert code == 0, code"
EVALUATE = (
    "calibrator, columns = load_with_columns(sys.argv[2], Columns())\n"
    "    evaluate_files(sys.argv[1], columns, calibrator, n_bootstrap=0, {run})"
)


def write(folder, n_rows):
    """Write shards with ids, countries, times, scores and labels."""
    rng = np.random.default_rng(0)
    size = n_rows // N_FILES
    for i in range(N_FILES):
        z = rng.normal(0, 2, (size, len(CLASSES))).astype(np.float32)
        y = (z + 2 * rng.gumbel(size=z.shape)).argmax(axis=1)
        columns = {
            "row_id": np.arange(i * size, (i + 1) * size),
            "country": rng.choice(["DE", "FR", "IN", "US"], size),
            "ts": np.arange(size).astype("datetime64[s]"),
            **dict(zip(CLASSES, z.T, strict=True)),
            "label": y,
        }
        path = folder / f"part-{i:03d}.parquet"
        parquet.write_table(pyarrow.table(columns), path, row_group_size=size // 2)
        if i == 0:
            calibrator = TemperatureScaling().fit(z[:50_000], y[:50_000])
    calibrator.class_names_ = tuple(CLASSES)
    save(calibrator, folder.parent / "ts.json", columns=DECLARED)


def timed(setup, call, *words):
    """Return seconds and peak memory of a call in a new process."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(TIMED.format(setup=setup, call=call))
        script.flush()
        done = subprocess.run(
            [sys.executable, script.name, *map(str, words)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    seconds, memory = done.stdout.split()[-2:]
    return float(seconds), float(memory)


def measure(folder, n_rows):
    """Yield a row for each task."""
    shards, calibrator = folder / "data", folder / "ts.json"
    setup = "from wildcal.cli.main import run"
    words = ["predict", calibrator, shards, "-q", "--overwrite", "-o"]
    yield "predict", 1, *timed(setup, PREDICT, *words, folder / "alone")
    yield "predict", 2, *timed(setup, PREDICT, *words, folder / "two", "--scheduler", "local")
    same = all(
        parquet.read_table(path).equals(parquet.read_table(folder / "two" / path.name))
        for path in sorted((folder / "alone").iterdir())
    )
    assert same, "two workers wrote something else"
    setup = (
        "from functools import partial\nfrom wildcal import Columns\n"
        "from wildcal.cli.options import load_with_columns\n"
        "from wildcal.evaluation.chunked import evaluate_files\n"
        "from wildcal.interop.dask import run_tasks"
    )
    alone = EVALUATE.format(run="")
    two = EVALUATE.format(run="run=partial(run_tasks, scheduler='local')")
    yield "evaluate", 1, *timed(setup, alone, shards, calibrator)
    yield "evaluate", 2, *timed(setup, two, shards, calibrator)


def main():
    """Measure and write a csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = []
    for n_rows in (options.rows // 4, options.rows):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "data").mkdir()
            write(folder / "data", n_rows)
            single = {}
            for task, n_workers, seconds, memory in measure(folder, n_rows):
                ratio = single.setdefault(task, seconds) / seconds
                row = (task, n_rows, n_workers, f"{seconds:.1f}", f"{ratio:.2f}", f"{memory:.0f}")
                rows.append((*row, __version__, time.strftime("%Y-%m-%d")))
                print(*row, sep="\t", flush=True)
    if options.output is not None:
        with options.output.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            header = ("task", "n_samples", "n_workers", "seconds", "speedup", "peak_mb")
            writer.writerow((*header, "wildcal", "date"))
            writer.writerows(rows)


if __name__ == "__main__":
    main()
