"""How soon a stream notices a shift, and how often it is wrong: ways to decide.

    python benchmarks/studies/alarm.py --output benchmarks/studies/alarm.csv

Streams of the shipped networks: 1,500 clean rows that were not tuned on, then rows of a corruption
that was not tuned on either. `delay` is the rows from the change to the alarm (streams that alarmed
before it are left out). False alarms are counted on clean rows drawn again and again.
"""

import argparse
import csv
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import wildcal
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.evaluation import environments
from wildcal._old.stream import Stream

NETWORKS = ("cifar10-resnet20", "cifar10-vgg11-half", "cifar10-wrn-16-2")
KINDS = ("gaussian_noise", "fog", "contrast", "defocus_blur", "pixelate")
CLEAN, SHIFTED = 1_500, 6_000
REPEATS = 4
CLEAN_STREAM = 1_000_000
TESTS = {
    "sequential": {"alarm": "sequential"},
    "often": {"alarm": "sequential", "false_alarms_per_100k": 50.0},
    "window": {"alarm": "window"},
}
FIELDS = ("network", "test", "kind", "severity", "streams", "noticed", "delay", "late", "per_100k")


def rises(alarm: np.ndarray) -> np.ndarray:
    """Return the rows at which an alarm begins."""
    return np.flatnonzero(np.diff(alarm, prepend=False) & alarm)


def delays(calibrator, options, clean, shifted, rng) -> list[float]:
    """Return the rows from the change to the alarm, infinite where there was none."""
    found = []
    while len(found) < REPEATS:
        rows = np.concatenate(
            [
                clean[rng.integers(0, len(clean), CLEAN + rng.integers(0, 256))],
                shifted[rng.integers(0, len(shifted), SHIFTED)],
            ]
        )
        begin = len(rows) - SHIFTED
        alarm = Stream(calibrator, **options).read(rows).alarm
        if alarm[begin - 1]:
            continue  # a false alarm hides the true one
        after = np.flatnonzero(alarm[begin:])
        found.append(float(after[0] + 1) if len(after) else np.inf)
    return found


def false_alarms(calibrator, options, clean, rng) -> float:
    """Return the alarms in 100,000 clean rows."""
    stream, last, count = Stream(calibrator, **options), False, 0
    for _ in range(CLEAN_STREAM // 50_000):
        alarm = stream.read(clean[rng.integers(0, len(clean), 50_000)]).alarm
        count += len(rises(alarm)) - bool(last and alarm[0])
        last = bool(alarm[-1])
    return count * 100_000 / CLEAN_STREAM


def rows_of(network: str):
    """Yield the rows of the table for one network."""
    suite = wildcal._old.suites.load(network)
    tuning = environments(suite)
    calibrator = ContextScaling().fit(tuning.logits, tuning.y, environment=tuning.environment)
    clean = suite.split("test").logits
    for test, options in TESTS.items():
        rng = np.random.default_rng(0)
        common = {"network": network, "test": test}
        rate = false_alarms(calibrator, options, clean, rng)
        yield {**common, "kind": "clean", "severity": 0, "per_100k": rate}
        for severity in range(1, 6):
            for kind in KINDS:
                shifted = suite.split(f"{kind}-{severity}").logits
                found = np.array(delays(calibrator, options, clean, shifted, rng))
                yield {
                    **common,
                    "kind": kind,
                    "severity": severity,
                    "streams": len(found),
                    "noticed": int(np.isfinite(found).sum()),
                    "delay": float(np.median(found)),
                    "late": float(np.max(found)),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    with output.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for network in NETWORKS:
            for row in rows_of(network):
                writer.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
