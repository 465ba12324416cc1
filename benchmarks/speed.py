"""Time and memory of predict, fit, import and ONNX files, on one thread; ratios to another version.

    python benchmarks/speed.py                                    every job of the installed version
    python benchmarks/speed.py --against .venv-old/bin/python     and its ratio to 0.1 (`make old`)
    python benchmarks/speed.py --jobs "fit ts" one -o speed.csv   jobs whose name contains a word

Each version runs in a worker process that uses public names only. Per job the workers take turns,
and the least processor time of each counts, so a busy machine changes both numbers alike. Extra MB
is the peak memory of predict beyond its input and output. The job "onnx" runs an exported file in
ONNX Runtime. Import is `from wildcal import TemperatureScaling` after NumPy: names are imported
lazily, so the package alone says nothing.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SIZES = ((1_000, 10), (50_000, 10), (50_000, 100), (5_000, 1_000))
PREDICT = ("ts", "energy", "vector", "isotonic", "irova", "irm", "bbq", "spline", "histogram")
FIT = ("ts", "ets", "energy", "vector", "dirichlet", "sms", "irova")
FIT_SIZES = SIZES[:3]
ONNX = (
    *("ts", "ets", "hts", "pts", "energy", "energy-linear", "vector", "matrix", "dirichlet", "svs"),
    *("sms", "beta", "isotonic", "histogram", "bbq", "spline", "irm", "irova", "irovats", "auto"),
)
ONNX_SIZES = ((1_000, 10), (1_000, 100))
TO_PREDICT = 5_000
"""A calibrator whose predictions are timed is fitted on at most so many samples."""
SECONDS = 0.05
"""A call is repeated until it has taken this long."""
HEADER = ("job", "samples", "classes", "ms", "extra MB", "old ms", "ratio")


@dataclass(frozen=True)
class Job:
    """One measurement: what is done, by which method, to how many samples and classes."""

    task: str
    method: str = ""
    samples: int = 0
    classes: int = 0

    @property
    def name(self) -> str:
        """What the table and --jobs call it."""
        return f"{self.task} {self.method}".strip()


def all_jobs() -> Iterator[Job]:
    """Yield the jobs in the order of the table."""
    yield Job("import")
    for method in ("ts", "energy"):
        yield Job("one sample", method, 1, 10)
    for method in PREDICT:
        yield from (Job("predict", method, n, k) for n, k in SIZES)
    for method in FIT:
        yield from (Job("fit", method, n, k) for n, k in FIT_SIZES)
    yield from (Job("fit", "auto", n, k) for n, k in SIZES[:2])
    for method in ONNX:
        yield from (Job("onnx", method, n, k) for n, k in ONNX_SIZES)


# The functions of a worker must run with the public names of either version.
@cache
def make_samples(n: int, n_classes: int) -> tuple[Any, Any]:
    """Return overconfident float32 logits and their labels."""
    import numpy as np

    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    z = rng.standard_normal((n, n_classes), dtype=np.float32)
    z[np.arange(n), y] += rng.normal(np.sqrt(2 * np.log(n_classes)) + 1, 1.6, n)
    return 3 * z, y


def get_calibrator(name: str) -> Any:
    """Return an unfitted calibrator by its short name."""
    import wildcal

    get = getattr(wildcal, "get_calibrator", None) or wildcal.make_calibrator
    return get(name)


@cache
def prepare(job: Job) -> Callable[[], Any]:
    """Return the call to be timed."""
    if job.task == "import":
        code = "import numpy, time; t = time.process_time(); from wildcal import TemperatureScaling"
        words = [sys.executable, "-c", f"{code}; print(time.process_time() - t)"]
        return lambda: float(subprocess.check_output(words))
    z, y = make_samples(max(job.samples, 1_000), job.classes)
    if job.task == "fit":
        if job.method == "energy":  # one OOD sample in twenty
            z, y = z.copy(), y.copy()
            z[::20], y[::20] = 0.4 * z[::20], -1
        return lambda: get_calibrator(job.method).fit(z, y)
    calibrator = get_calibrator(job.method).fit(z[:TO_PREDICT], y[:TO_PREDICT])
    rows = z[: job.samples]
    if job.task == "onnx":
        session = export(calibrator)
        return lambda: session.run(["probabilities"], {"logits": rows})
    return lambda: calibrator.predict_proba(rows)


def export(calibrator: Any) -> Any:
    """Return a session of ONNX Runtime with an exported calibrator."""
    import onnxruntime

    from wildcal.interop import onnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrator.onnx"
        onnx.export(calibrator, path)
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def measure(job: Job) -> float:
    """Return the processor time of one call in seconds."""
    call = prepare(job)
    if job.task == "import":
        return float(call())
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SECONDS:
        call()
        count += 1
    return spent / count


def extra_megabytes(job: Job) -> float | None:
    """Return the peak memory of a prediction beyond its input and output."""
    if job.task != "predict":
        return None
    call = prepare(job)
    tracemalloc.start()
    size = call().nbytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - size) / 1e6


def work() -> None:
    """Answer each line of standard input, a task and a job, with a number."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        task, *fields = json.loads(line)
        answer = {"time": measure, "memory": extra_megabytes}[task](Job(*fields))
        print(json.dumps(answer), flush=True)


class Worker:
    """A process of one interpreter that measures jobs."""

    def __init__(self, python: str, *, own: bool) -> None:
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "WILDCAL_THREADS")
        environment = {**os.environ, **dict.fromkeys(threads, "1")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an import would compile each time
        if not own:
            environment.pop("PYTHONPATH", None)  # it leads to this version
        self.process = subprocess.Popen(
            [python, __file__, "--worker"], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, task: str, job: Job) -> Any:
        """Return what the process answers."""
        assert self.process.stdin
        assert self.process.stdout
        line = json.dumps([task, job.task, job.method, job.samples, job.classes])
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="PYTHON", help="interpreter with the other version")
    parser.add_argument("--jobs", nargs="+", default=[""], help="jobs whose name contains a word")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, help="also write a csv")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    workers = [Worker(sys.executable, own=True)]
    if options.against:
        workers.append(Worker(options.against, own=False))
    rows, ratios = [], []
    print("{:<18}{:>8}{:>9}{:>12}{:>10}{:>12}{:>7}".format(*HEADER))
    for job in all_jobs():
        if not any(word in job.name for word in options.jobs):
            continue
        times = [[w.ask("time", job) for w in workers] for _ in range(options.turns)]
        ms = [1e3 * min(column) for column in zip(*times, strict=True)]
        memory = workers[0].ask("memory", job)
        ratio = ms[0] / ms[1] if options.against else None
        ratios += [ratio] if ratio else []
        numbers = ((ms[0], ".3f"), (memory, ".1f"), ([*ms, None][1], ".3f"), (ratio, ".2f"))
        cells = ["" if value is None else f"{value:{form}}" for value, form in numbers]
        rows.append((job.name, job.samples or "", job.classes or "", *cells))
        print("{:<18}{:>8}{:>9}{:>12}{:>10}{:>12}{:>7}".format(*rows[-1]), flush=True)
    if ratios:
        print(f"median ratio {statistics.median(ratios):.2f}, largest {max(ratios):.2f}")
    if options.output:
        with options.output.open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
