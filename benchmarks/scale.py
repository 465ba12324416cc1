"""Past memory and past one machine: peak memory of shards, time against rows and against workers.

    python benchmarks/scale.py memory --gigabytes 3 12    peak memory, the process capped at 1 GiB
    python benchmarks/scale.py rows                       time against the number of rows
    python benchmarks/scale.py workers                    threads, one worker, two workers
    python benchmarks/scale.py cost                       the cost model, and a check of it

Shards of 64 MB of float32 logits are made in --folder and stay there for the next run. All times
are ratios within one run; on a busy machine only these mean anything. `memory` fits temperature and
energy scaling and measures ECE, SCE and KDE-ECE, each size in a process of its own whose address
space is limited (`resource.setrlimit`), and prints the peak of its resident memory.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

from wildcal import EnergyScaling, TemperatureScaling
from wildcal.core.engine import use_engine
from wildcal.core.parallel import use_threads
from wildcal.evaluation import evaluate_calibrator
from wildcal.io.sources import Shards, open_shards

SHARD_BYTES = 64 << 20
CAP = 1 << 30
METRICS = ("ece", "sce", "kde_ece")
SIZES = {10: (10**5, 10**6, 10**7, 10**8), 1000: (10**4, 10**5, 10**6, 3 * 10**6)}


def make_shards(folder: Path, n_rows: int, n_classes: int) -> Shards:
    """Return shards with so many rows, made if they are not there; no two of them are equal."""
    rows = SHARD_BYTES // (4 * n_classes)
    place = folder / f"{n_classes}-classes"
    place.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, rows)
    base = rng.standard_normal((rows, n_classes), dtype=np.float32)
    base[np.arange(rows), y] += np.float32(np.sqrt(2 * np.log(n_classes)))
    paths = []
    for i in range(-(-n_rows // rows)):
        n = min(rows, n_rows - i * rows)
        path = place / (f"{i:05d}.npy" if n == rows else f"end-{i:05d}-{n}.npy")
        if not path.exists():
            np.save(path.with_suffix(".y.npy"), y[:n])
            np.save(path, base[:n] * np.float32(1 + 1e-3 * i))
        paths.append(path)
    return open_shards(paths)


def do_all(source: Shards) -> None:
    """Fit two methods and measure one of them."""
    TemperatureScaling().fit(source)
    fitted = EnergyScaling().fit(source)
    evaluate_calibrator(fitted, source, metrics=METRICS)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def memory(folder: Path, gigabytes: list[float]) -> None:
    """Print the peak of a capped process for each size."""
    peaks = {}
    for size in gigabytes:
        n_rows = int(size * 1e9 / 4000)
        make_shards(folder, n_rows, 1000)
        words = [sys.executable, __file__, "peak", "--folder", str(folder), "--rows", str(n_rows)]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        peaks[size] = json.loads(said)["peak"]
        print(f"{size:g} GB in shards: peak {peaks[size] / 2**20:.0f} MiB, cap {CAP >> 20} MiB")
    least, most = peaks[min(peaks)], peaks[max(peaks)]
    print(f"from {min(peaks):g} to {max(peaks):g} GB the peak grows by {most / least - 1:.1%}")


def peak(folder: Path, n_rows: int) -> None:
    """Do the work in this process, capped, and print the peak of its memory."""
    source = make_shards_there(folder, n_rows)
    resource.setrlimit(resource.RLIMIT_AS, (CAP, CAP))
    with use_threads(2):
        do_all(source)
    print(json.dumps({"peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


def make_shards_there(folder: Path, n_rows: int) -> Shards:
    """Return shards that another process made: making them takes memory of its own."""
    rows = SHARD_BYTES // 4000
    place = folder / "1000-classes"
    whole = [place / f"{i:05d}.npy" for i in range(n_rows // rows)]
    rest = [place / f"end-{n_rows // rows:05d}-{n_rows % rows}.npy"] if n_rows % rows else []
    return open_shards([*whole, *rest])


def rows(folder: Path, most: int) -> None:
    """Print time against the number of rows, as a ratio to the time of the smallest set."""
    for n_classes, sizes in SIZES.items():
        first = None
        for n in (n for n in sizes if n * n_classes <= most):
            source = make_shards(folder, n, n_classes)
            took = min(timed(lambda: TemperatureScaling().fit(source)) for _ in range(2))
            first = first or (n, took)
            print(
                f"{n_classes:>5} classes, {n:>12,} rows: {took:8.2f} s, {n / first[0]:8.0f} x rows,"
                f" {took / first[1]:8.1f} x time"
            )


@contextmanager
def started(workers: int, folder: str) -> Iterator[str]:
    """Start a scheduler and workers as commands, and yield the address."""
    file = Path(folder) / f"scheduler-{workers}.json"
    command = [sys.executable, "-m"]
    where = ["--host", "127.0.0.1", "--scheduler-file", str(file), "--no-dashboard"]
    processes = [subprocess.Popen(
        [*command, "distributed.cli.dask_scheduler", *where, "--port", "0"],
        stderr=subprocess.DEVNULL,
    )]  # fmt: skip
    try:
        while not file.exists():
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        processes += [
            subprocess.Popen(
                [*command, "distributed.cli.dask_worker", address, "--nthreads", "1",
                 "--no-nanny", "--no-dashboard"],
                stderr=subprocess.DEVNULL,
            )
            for _ in range(workers)
        ]  # fmt: skip
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def workers(folder: Path, n_rows: int) -> None:
    """Print how fast one thread, one worker and two workers fit the same shards."""
    from wildcal.engine import use

    source = make_shards(folder, n_rows, 1000)

    def fit() -> object:
        return TemperatureScaling().fit(source)

    took = {}
    with use_threads(1):
        took["one thread"] = min(timed(fit) for _ in range(3))
    with use_threads(2):
        took["two threads"] = min(timed(fit) for _ in range(3))
    with tempfile.TemporaryDirectory() as place:
        for n in (1, 2):
            with started(n, place) as address, use(address) as cluster:
                cluster.client.wait_for_workers(n)
                fit()
                took[f"{n} worker{'s' * (n > 1)}"] = min(timed(fit) for _ in range(3))
                moved, tasks = cluster.bytes_moved / 4, cluster.tasks / 4
                print(f"{n} workers: {moved / 1e6:.3f} MB moved and {tasks:.0f} tasks a fit")
    print(f"{n_rows:,} rows of 1,000 classes, {source.nbytes / 1e9:.1f} GB")
    for what, seconds in took.items():
        print(f"{what:>12}: {seconds:7.2f} s, {took['one thread'] / seconds:5.2f} of one thread")
    print(f"two workers are {took['1 worker'] / took['2 workers']:.2f} of one")


class Here:
    """One thread of this process as the engine."""

    def run(self, walk: Any, source: object) -> list[object]:
        return [walk.group(number) for number in range(walk.groups)]


def passes_of(make: Callable[[], object], source: Shards) -> int:
    """Return how often a fit walks over all logits."""
    count = 0

    class Counting(Here):
        def run(self, walk: Any, of: object) -> list[object]:
            nonlocal count
            count += of is source
            return super().run(walk, of)

    with use_engine(Counting()):
        make()
    return count


def cost(folder: Path, n_rows: int) -> None:
    """Print what the cost model is made of, and its prediction beside a measurement."""
    from wildcal.engine import use

    small, source = make_shards(folder, 4_000, 1000), make_shards(folder, n_rows, 1000)
    fits = {kind.name: kind for kind in (TemperatureScaling, EnergyScaling)}
    with tempfile.TemporaryDirectory() as place, use_threads(1), started(1, place) as address:
        with use(address) as cluster:
            cluster.client.wait_for_workers(1)
            passes = {n: passes_of(lambda k=k: k().fit(source), source) for n, k in fits.items()}
            few = {n: passes_of(lambda k=k: k().fit(small), small) for n, k in fits.items()}
            print(f"passes over {n_rows:,} rows: {passes}")
            for n, kind in fits.items():
                start = time.process_time()
                with use_engine(Here()):
                    kind().fit(source)
                spent = time.process_time() - start
                print(f"{n}: {passes[n] * source.nbytes / spent / 1e9:.2f} GB a processor second")
            fits["ts"]().fit(small)  # imports, on the worker
            wait = min(timed(lambda: fits["ts"]().fit(small)) for _ in range(3)) / few["ts"]
            print(f"a pass over {len(small):,} rows: {1e3 * wait:.0f} ms")
            took = {n: timed(lambda k=k: k().fit(source)) for n, k in fits.items()}
            rate = passes["ts"] * source.nbytes / (took["ts"] - passes["ts"] * wait)
            print(f"ts took {took['ts']:.1f} s: {rate / 1e9:.2f} GB/s of one worker")
            guess = passes["energy"] * (source.nbytes / rate + wait)
            print(f"energy: predicted {guess:.1f} s, took {took['energy']:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("memory", "rows", "workers", "cost", "peak"))
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "wildcal-scale"
    )
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[3, 12])
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--most", type=float, default=3e9, help="Numbers of the largest set.")
    told = parser.parse_args()
    if told.what == "memory":
        memory(told.folder, told.gigabytes)
    elif told.what == "peak":
        peak(told.folder, told.rows)
    elif told.what == "cost":
        cost(told.folder, told.rows)
    elif told.what == "rows":
        rows(told.folder, int(told.most))
    else:
        workers(told.folder, told.rows)


if __name__ == "__main__":
    main()
