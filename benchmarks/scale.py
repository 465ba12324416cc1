"""Past memory and past one machine: peak memory of shards, time against workers.

    python benchmarks/scale.py memory     peak memory on 3 and 12 GB, the process capped at 1 GiB
    python benchmarks/scale.py workers    threads, one worker, two workers

Each writes its csv to benchmarks/scale, of which docs/scale.md is made. Shards of 64 MB of float32
logits are made in --folder, 16 GB in all, and stay there for the next run. Work is processor time,
which a busy machine stretches little; time by the clock stands beside it where it matters. That is
`workers`, which wants idle cores, and says which share of them others took. `memory`
fits temperature and energy scaling and measures ECE, SCE and KDE-ECE, each size in a process of its
own whose address space is limited (`resource.setrlimit`), and notes the peak of its memory.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
RESULTS = Path(__file__).parent / "scale"
TRIES = 3
# Of the cores, what may be busy with something else where time by the clock is to mean anything.
IDLE = 0.05


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


def write(name: str, lines: list[dict[str, object]]) -> None:
    """Write what was measured, and show it."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    for line in lines:
        print(", ".join(f"{key} {value}" for key, value in line.items()))


def memory(folder: Path, gigabytes: list[float]) -> None:
    """Note the peak of a capped process for each size."""
    lines: list[dict[str, object]] = []
    for size in gigabytes:
        n_rows = int(size * 1e9 / 4000)
        make_shards(folder, n_rows, 1000)
        words = [sys.executable, __file__, "peak", "--folder", str(folder), "--rows", str(n_rows)]
        said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        lines.append(
            {
                "gigabytes": f"{size:g}",
                "rows": n_rows,
                "peak_mib": f"{said['peak'] / 2**20:.1f}",
                "cap_mib": CAP >> 20,
                "processor_seconds": f"{said['seconds']:.0f}",
            }
        )
        write("memory", lines)


def peak(folder: Path, n_rows: int) -> None:
    """Do the work in this process, capped, and print the peak of its memory."""
    source = shards_there(folder, n_rows)
    resource.setrlimit(resource.RLIMIT_AS, (CAP, CAP))
    with use_threads(2):
        do_all(source)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"peak": 1024 * used.ru_maxrss, "seconds": time.process_time()}))


def shards_there(folder: Path, n_rows: int) -> Shards:
    """Return shards that another process made: making them takes memory of its own."""
    rows = SHARD_BYTES // 4000
    place = folder / "1000-classes"
    whole = [place / f"{i:05d}.npy" for i in range(n_rows // rows)]
    rest = [place / f"end-{n_rows // rows:05d}-{n_rows % rows}.npy"] if n_rows % rows else []
    return open_shards([*whole, *rest])


class Here:
    """One thread of this process as the engine."""

    def run(self, walk: Any, source: object) -> Iterator[object]:
        return (walk.group(number) for number in range(walk.groups))


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


def busy_seconds() -> float:
    """Return how long all cores together were busy since the machine was started."""
    with Path("/proc/stat").open() as file:
        user, nice, system, _, _, *interrupts = map(int, file.readline().split()[1:9])
    return float(user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


class Clock:
    """The processor time of what stands in each other's way: client, scheduler, busiest worker.

    `processes` has all of it, with what event loops take for every second that a process waits,
    which is long on a busy machine. `threads` has only those that compute: the client's and that
    of the busiest worker.
    """

    def __init__(self, client: Any = None) -> None:
        self.client = client
        self.before, self.busy, self.clock = self._now(), busy_seconds(), time.perf_counter()

    def _now(self) -> tuple[dict[str, float], dict[str, float]]:
        processes, threads = {"": time.process_time()}, {"": time.thread_time()}
        if self.client is not None:
            processes["scheduler"] = self.client.run_on_scheduler(time.process_time)
            processes |= (there := self.client.run(time.process_time))
            asked = {
                w: self.client.submit(time.thread_time, workers=[w], pure=False) for w in there
            }
            threads |= {worker: future.result() for worker, future in asked.items()}
        return processes, threads

    def read(self) -> dict[str, float]:
        """Return what the clock and the processors say."""
        seconds, busy = time.perf_counter() - self.clock, busy_seconds() - self.busy
        now = self._now()
        ours = sum(now[0].values()) - sum(self.before[0].values())
        found = {"seconds": seconds, "others": max(0.0, busy - ours) / seconds / os.cpu_count()}
        for what, before, after in zip(("processes", "threads"), self.before, now, strict=True):
            spent = {name: after[name] - before[name] for name in after}
            shared = spent.pop("") + spent.pop("scheduler", 0.0)
            found[what] = shared + max(spent.values(), default=0.0)
        return found


def workers(folder: Path, n_rows: int) -> None:
    """Note how fast one thread, one worker and two workers fit the same shards."""
    from wildcal.engine import use

    source = make_shards(folder, n_rows, 1000)
    lines: list[dict[str, object]] = []

    def note(engine: str, client: Any = None, cluster: Any = None) -> None:
        tries, before = [], (cluster.bytes_moved, cluster.tasks) if cluster else (0, 0)
        for _ in range(TRIES):
            clock = Clock(client)
            TemperatureScaling().fit(source)
            tries.append(clock.read())
        moved, tasks = (cluster.bytes_moved, cluster.tasks) if cluster else (0, 0)
        lines.append(
            {
                "engine": engine,
                "rows": n_rows,
                "seconds": f"{min(t['seconds'] for t in tries):.3f}",
                "processes_seconds": f"{min(t['processes'] for t in tries):.3f}",
                "threads_seconds": f"{min(t['threads'] for t in tries):.3f}",
                "others_share": f"{max(t['others'] for t in tries):.3f}",
                "mb_moved": f"{(moved - before[0]) / TRIES / 1e6:.4f}",
                "tasks": (tasks - before[1]) // TRIES,
            }
        )
        write("workers", lines)

    TemperatureScaling().fit(source)  # from the disk into the memory of the system
    with use_threads(1), use_engine(Here()):
        note("one thread")
    with tempfile.TemporaryDirectory() as place:
        for n, engine in ((1, "one worker"), (2, "two workers")):
            with started(n, place) as address, use(address) as cluster:
                cluster.client.wait_for_workers(n)
                TemperatureScaling().fit(source)  # imports, on the workers
                note(engine, cluster.client, cluster)
    thread, one, two = (float(str(line["seconds"])) for line in lines)
    print(
        f"by the clock one worker is {thread / one:.2f} of a thread, two are {one / two:.2f} of it"
    )
    most = max(float(str(line["others_share"])) for line in lines)
    if most > IDLE:
        print(f"the cores were not idle: others took {100 * most:.0f} % of them. Run it again.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("memory", "workers", "peak"))
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "wildcal-scale"
    )
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[3, 12])
    parser.add_argument("--rows", type=int, default=250_000)
    told = parser.parse_args()
    if told.what == "memory":
        memory(told.folder, told.gigabytes)
    elif told.what == "peak":
        peak(told.folder, told.rows)
    else:
        workers(told.folder, told.rows)


if __name__ == "__main__":
    main()
