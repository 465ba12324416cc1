"""Find out which method to use for how much data, how many classes, what shift.

    python benchmarks/studies/choose.py        some minutes; writes choose.csv

Synthetic suites (`wildcal.testing.make_suite`): every method is fitted on n calibration samples,
the energy methods also on n / 20 OOD samples, and measured on 5,000 in-distribution and 5,000
shifted samples. The number is the mean excess ECE over seeds, in percent, with the 95 % interval of
that mean. docs/choose.md is made from the csv.
"""

import argparse
import csv
import platform
import subprocess
import time
import warnings
from pathlib import Path

import numpy as np
import scipy
from rich.console import Console
from rich.progress import Progress
from scipy.stats import t as student

from wildcal import CALIBRATORS, __version__, get_calibrator
from wildcal._old.metrics import excess_ece
from wildcal.testing import make_suite

HERE = Path(__file__).parent
# Synthetic suites have neither domains nor distances to training samples.
METHODS = [name for name in CALIBRATORS if name not in ("window", "dac")]
SIZES = [(10, 100), (10, 500), (10, 5000), (100, 500), (100, 5000)]


def commit() -> str:
    """Return the short hash of the code that runs."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def main() -> None:
    """Run the study and write its csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "choose.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code = commit()  # now, before the csv itself makes the checkout dirty

    found: dict[tuple[str, int, int, str], list[float]] = {}
    seconds: dict[tuple[str, int, int], list[float]] = {}
    jobs = [(k, n, seed) for k, n in SIZES for seed in range(options.seeds)]
    start = time.time()
    with Progress(console=Console(stderr=True)) as progress:
        for n_classes, n, seed in progress.track(jobs, description="Studying"):
            X, y = make_suite(n, n_classes, seed=1000 + seed).calibration
            suite = make_suite(5000, n_classes, seed=2000 + seed)
            for name in METHODS:
                calibrator = get_calibrator(name)
                own = y >= -1 if calibrator.uses_ood else y >= 0
                began = time.perf_counter()
                calibrator.fit(X[own], y[own])
                seconds.setdefault((name, n_classes, n), []).append(time.perf_counter() - began)
                for split, data in (("clean", suite.test), ("shifted", suite.shifted)):
                    error = excess_ece(data.y, calibrator.predict_proba(data.logits))
                    found.setdefault((name, n_classes, n, split), []).append(100 * float(error))

    python = platform.python_version()
    versions = f"numpy {np.__version__}, scipy {scipy.__version__}, python {python}"
    with options.output.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("method", "classes", "tuning_rows", "split", "excess_ece", "low", "high",
                         "seeds", "fit_seconds", "wildcal", "commit", "versions"))  # fmt: skip
        for (name, k, n, split), values in found.items():
            mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))
            half = student.ppf(0.975, len(values) - 1) * error
            writer.writerow((
                name, k, n, split, f"{mean:.3f}", f"{mean - half:.3f}", f"{mean + half:.3f}",
                len(values), f"{np.median(seconds[name, k, n]):.3f}", __version__, code,
                versions,
            ))  # fmt: skip
    print(f"wrote {options.output} in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
