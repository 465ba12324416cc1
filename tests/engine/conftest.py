"""One scheduler and two workers, started as commands, for all tests of the engine."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed", reason="dask and distributed are not installed")

CONFIG = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__DASHBOARD__LINK": "",
    "OMP_NUM_THREADS": "1",
}


class Processes:
    """A scheduler and its workers on the loopback interface."""

    def __init__(self, folder):
        self.folder, self.workers, self.number = folder, [], 0
        self.scheduler = self.start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        self.address = self._said(r"Scheduler at:\s+(tcp://\S+)")

    def start(self, module, *words, env=None):
        self.log = self.folder / f"log-{self.number}"
        self.number += 1
        with self.log.open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdout=log,
                stderr=log,
                env=os.environ | CONFIG | (env or {}),
                cwd=self.folder,
            )

    def worker(self, env=None):
        words = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
        process = self.start("distributed.cli.dask_worker", self.address, *words, env=env)
        self.workers.append(process)
        self._said(r"Starting established connection|Registered to")
        return process

    def _said(self, pattern):
        for _ in range(600):
            found = re.search(pattern, self.log.read_text())
            if found:
                return found.group(found.lastindex or 0)
            time.sleep(0.1)
        raise AssertionError(f"no {pattern} in:\n{self.log.read_text()}")

    def end(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
        for process in (*self.workers, self.scheduler):
            process.wait()


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    cluster = Processes(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.worker()
        cluster.worker()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")  # no longer: tests of other files would then run on it
def cluster(processes):
    from wildcal._old.engine import use

    with use(processes.address) as connected:
        yield connected


N, K = 330_000, 10


def rows_of(n=N, k=K):
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    logits = 1.5 * rng.standard_normal((n, k), np.float32)
    logits[np.arange(n), y] += 3
    return logits, y


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """Rows of three groups of blocks, in shards that end anywhere."""
    folder = Path(tmp_path_factory.mktemp("shards"))
    logits, y = rows_of()
    cuts = (0, 1, 150_000, 150_007, N)
    for i in range(4):
        rows = slice(cuts[i], cuts[i + 1])
        np.savez(folder / f"{i}.npz", logits=logits[rows], y=y[rows])
    return folder


@pytest.fixture(scope="session")
def make_rows():
    return rows_of
