"""Measure exact optimal transport of rows to classes, which `cot` solves for every window.

    python benchmarks/transport.py            one thread, processor seconds, best of three

Rows are softmax probabilities of logits with a signal and a bias towards some classes, so that many
rows have to change class; and the joined shifted tuning splits of a shipped suite. Classes are
wanted equally often, as often as among five clean labels a class, by Zipf's law, and half of all
rows in one of them.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import time

import numpy as np

from wildcal import TemperatureScaling, suites
from wildcal.accuracy import transport
from wildcal.accuracy.rows import proba

LIMITS = {(10_000, 10): 0.05, (2_000, 1_000): 1.0, (10_000, 1_000): None, (500, 1_000): None}


def made(rows: int, classes: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(rows, classes)) + 0.5 * rng.normal(size=classes)
    logits[np.arange(rows), rng.integers(0, classes, rows)] += 2 + np.log(classes)
    return proba(logits, 1.0)


def shipped(rows: int) -> np.ndarray:
    suite = suites.load("cifar10-resnet20")
    clean = suite.split("validation")
    temperature = TemperatureScaling().fit(clean.logits, clean.y).temperature_
    joined = np.concatenate([split.logits for split in suite.tune("covariate")[:20]])
    return proba(joined[:rows], temperature)


def wanted(classes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    zipf = 1 / np.arange(1, classes + 1)
    return {
        "equal": np.full(classes, 1 / classes),
        "drawn": np.bincount(rng.integers(0, classes, 5 * classes), minlength=classes)
        / (5 * classes),
        "Zipf": zipf / zipf.sum(),
        "half in one": np.r_[0.5, np.full(classes - 1, 0.5 / (classes - 1))],
    }


def measure(name: str, value: np.ndarray, share: np.ndarray, limit: float | None) -> None:
    seconds = []
    for _ in range(3):
        start = time.process_time()
        found = transport(value, share)
        seconds.append(time.process_time() - start)
    words = "" if limit is None else f", limit {limit} s"
    print(f"{name:>38}: {min(seconds):.3f} s, gap {found.gap:.0e}{words}", flush=True)


if __name__ == "__main__":
    measure("10000 x 10, shipped suite, equal", shipped(10_000), wanted(10)["equal"], 0.05)
    for (rows, classes), limit in LIMITS.items():
        for shares, share in wanted(classes).items():
            usual = shares in ("equal", "drawn")
            name = f"{rows} x {classes}, made, {shares}"
            measure(name, made(rows, classes), share, limit if usual else None)
