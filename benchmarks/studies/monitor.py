"""How good a monitor's estimates and alerts are, on corruptions of the shipped image networks.

    python benchmarks/studies/monitor.py    writes monitor.csv, a minute

A stream has 1,500 in-distribution samples, then 2,000 of a corruption. Calibrators are temperature
scaling of the in-distribution calibration split, so no corruption is known. Windows of 400.
"""

import csv
import warnings
from pathlib import Path

import numpy as np

from wildcal import TemperatureScaling, suites
from wildcal.monitor import Monitor

FILE = Path(__file__).with_name("monitor.csv")
KINDS = ("fog", "brightness", "contrast", "gaussian_noise", "motion_blur", "jpeg_compression")
FIELDS = ("suite", "severity", "kind", "error", "held", "delay")
N_BEFORE, N_AFTER, WINDOW = 1500, 2000, 400


def rows(name: str):
    suite = suites.load(name)
    splits = {split.name: split for split in suite.splits}
    fit = next(s for s in suite.splits if s.role == "calibration" and s.is_source)
    known = fit.y >= 0
    fitted = TemperatureScaling().fit(fit.logits[known], fit.y[known])
    test = next(s for s in suite.splits if s.role == "test" and s.is_source)
    found = [(0, "none", test)]
    for split in splits.values():
        if split.role == "test" and split.severity and split.corruption in KINDS:
            found.append((split.severity, split.corruption, split))
    for severity, kind, split in found:
        rng = np.random.default_rng(severity)
        monitor = Monitor(fitted, window=WINDOW)
        monitor.update(test.logits[rng.integers(0, len(test.y), N_BEFORE)])
        if monitor.status().n_alerts:
            print(f"{name}: false alert")
        i = rng.integers(0, len(split.y), N_AFTER)
        result = monitor.update(split.logits[i])
        n = monitor.status().n_window
        accuracy = (result.predicted == split.y[i])[-n:].mean()
        estimate = monitor.estimated_accuracy()
        delay = result.alerts[0] - N_BEFORE if result.alerts else ""
        held = int(estimate.low <= accuracy <= estimate.high)
        yield [name, severity, kind, round(estimate.value - accuracy, 4), held, delay]


def main() -> None:
    warnings.simplefilter("ignore")
    names = [n for n in suites.list() if n.startswith(("cifar", "imagenet"))]
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for name in names:
            writer.writerows(rows(name))


if __name__ == "__main__":
    main()
