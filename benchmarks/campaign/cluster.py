"""Fits on a cluster whose workers are killed: the same bytes as here, whoever was lost when."""

import functools
import json
import logging
import os
import signal
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError

from wildcal import make_calibrator, save
from wildcal.core.calibrator import Calibrator
from wildcal.core.engine import use_engine

Rng = np.random.Generator
METHODS = ("ts", "energy", "vector")
# Several groups of blocks, so that a walk has work for both workers; shards end anywhere.
CUTS = (0, 1, 150_000, 150_007, 330_000)


@functools.cache
def _shards() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="wildcal-campaign-"))
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((CUTS[-1], 5), np.float32)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    for i, (low, high) in enumerate(pairwise(CUTS)):
        np.savez(folder / f"{i}.npz", logits=logits[low:high], y=y[low:high])
    return folder


@functools.cache
def _workers() -> Any:
    """Return a scheduler for workers in processes of their own."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=0,
        threads_per_worker=1,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    )


def _bytes(calibrator: Calibrator) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        save(calibrator, Path(folder) / "cal.json")
        return (Path(folder) / "cal.json").read_bytes()


@functools.cache
def _here(name: str) -> bytes:
    from wildcal.io.sources import open_shards

    return _bytes(make_calibrator(name).fit(open_shards(_shards())))


def _killed(rng: Rng) -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        return
    from wildcal.engine import use
    from wildcal.io.sources import open_shards

    name, at = str(rng.choice(METHODS)), int(rng.integers(1, 4))
    victim = int(rng.integers(2))
    wanted, walks = _here(name), 0
    _workers().scale(2)  # one may be lost since the last trial
    _workers().wait_for_workers(2, timeout=120)
    with use(_workers().scheduler_address) as cluster:
        submit = cluster._submit

        def submit_and_kill(*given: Any) -> Any:
            nonlocal walks
            futures, walks = submit(*given), walks + 1
            if walks == at:
                alive = [w.pid for w in _workers().workers.values() if w.pid]
                os.kill(alive[victim % len(alive)], signal.SIGKILL)
            return futures

        # Not a guess at a moment: the kill is sent when the tasks of a walk have been handed out.
        cluster._submit = submit_and_kill
        with use_engine(cluster):
            found = _bytes(make_calibrator(name).fit(open_shards(_shards())))
    if walks < at:
        raise FindingError(f"{name} had {walks} walks, and the kill was to come at {at}")
    if found != wanted:
        fitted = [json.loads(data)["fitted"] for data in (found, wanted)]
        raise FindingError(f"{name} with a worker killed: {fitted}")


ATTACKS = [Attack("kills/cluster", _killed, batch=1, seconds=300, long=True)]
