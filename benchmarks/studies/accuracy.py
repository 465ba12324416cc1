"""Measure accuracy estimators: their error, and how often their intervals contain the accuracy.

    python benchmarks/studies/accuracy.py            some minutes on one core; writes accuracy.csv

Errors: shifted calibration splits of the CIFAR-10 suites, the four validation corruptions at five
severities. Each corruption is estimated by estimators fitted on the source and the other three
("domains"), or on the source alone ("source only"). GDE compares networks that differ in
architecture.

Coverage: windows of the test splits of all suites with corruptions, in distribution and under the
fifteen corruptions that no fit has seen. Estimators are fitted on the source and the validation
corruptions, or on the source alone. Standard errors take windows of a corruption and a network as
one cluster.
"""

import argparse
import csv
import os
import platform
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy

from wildcal import __version__, suites
from wildcal.accuracy import benchmark_estimators, get_estimator, summarize
from wildcal.accuracy.benchmark import SETTINGS

HERE = Path(__file__).parent
CSV = HERE / "accuracy.csv"
TUNED_ON = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
NUMBERS = ("mae", "worst", "bias", "spearman", "coverage", "coverage_se", "width", "warned")
FIELDS = ("part", "setting", "estimator", "windows", *NUMBERS, "wildcal", "commit", "versions")
COVERED = ("atc-ne", "atc-mc", "ac", "doc", "cbpe")
SIZES = (1024, 512, 128, 32)
N_SOURCE = 30
"""In-distribution windows of each size and network; under shift two of each split."""


class Tuned:
    """A suite whose shifted calibration splits are the validation corruptions."""

    def __init__(self, suite: Any) -> None:
        self.suite = suite
        self.calibration = [s for s in suite.calibration if s.is_source or s.corruption in TUNED_ON]

    def split(self, name: str) -> Any:
        """Return a split by its name."""
        return self.suite.split(name)


def errors(part: str, use_domains: bool) -> list[dict[str, Any]]:
    """Return the rows of all estimators over the CIFAR-10 suites."""
    names = suites.list("cifar10")
    loaded = {name: Tuned(suites.load(name)) for name in names}
    windows = []
    for i, name in enumerate(names):
        second = _same_samples(loaded, (*names[i + 1 :], *names[:i]), name)
        chosen = None if second else ["ac", "doc", "atc-ne", "atc-mc", "cot", "cott", "cbpe"]
        windows += benchmark_estimators(
            loaded[name],
            chosen,
            settings=tuple(SETTINGS),
            second_suite=second,
            use_domains=use_domains,
        )
    return [{"part": part, **row} for row in summarize(windows)]


def _same_samples(loaded: dict[str, Tuned], others: tuple[str, ...], name: str) -> Tuned | None:
    """Return the first other network with the same samples."""
    splits = [s for s in loaded[name].calibration if s.is_shifted]
    for other in others:
        if all(np.array_equal(s.y, loaded[other].split(s.name).y) for s in splits):
            return loaded[other]
    return None


def coverage(use_domains: bool) -> list[dict[str, Any]]:
    """Return the rows of intervals, in distribution and under unseen corruptions."""
    found: dict[tuple[str, str], list[tuple[str, float, float, bool, float]]] = {}
    for name in suites.list():
        suite = Tuned(suites.load(name))
        tuned = [s for s in suite.calibration if s.is_shifted and use_domains]
        if not any(s.corruption for s in suite.calibration):
            continue
        parts = [next(s for s in suite.calibration if s.is_source), *tuned]
        X, y = (np.concatenate([np.asarray(getattr(s, k)) for s in parts]) for k in ("logits", "y"))
        domain = np.repeat(
            ["source" if s.is_source else s.name for s in parts], [s.n_samples for s in parts]
        )
        test = [s for s in suite.suite.splits if s.role == "test" and not s.is_ood]
        test = [s for s in test if s.corruption not in TUNED_ON]
        fitted = {e: get_estimator(e).fit(X, y, domain=domain) for e in COVERED}
        for split in test:
            logits, labels = np.asarray(split.logits), np.asarray(split.y)
            rng = np.random.default_rng(split.n_samples)
            setting = "in distribution" if split.is_source else "unseen corruptions"
            sizes = [n for n in SIZES if n < len(labels)] or [len(labels)]
            for i in range(N_SOURCE if split.is_source else 2):
                for n in sizes:
                    some = rng.permutation(len(labels))[:n]
                    truth = float((logits[some].argmax(axis=1) == labels[some]).mean())
                    cluster = f"{name} {split.corruption or i}"
                    for estimator, each in fitted.items():
                        e = each.estimate(logits[some])
                        inside = e.low <= truth <= e.high
                        found.setdefault((setting, estimator), []).append(
                            (cluster, e.value, truth, inside, e.high - e.low)
                        )
    part = "intervals, domains" if use_domains else "intervals, source only"
    return [
        _covered(part, setting, estimator, cells) for (setting, estimator), cells in found.items()
    ]


def _covered(part: str, setting: str, estimator: str, cells: list[Any]) -> dict[str, Any]:
    clusters = np.unique([c[0] for c in cells], return_inverse=True)[1]
    inside = np.array([c[3] for c in cells], dtype=float)
    value, truth = np.array([c[1] for c in cells]), np.array([c[2] for c in cells])
    # Sum of squares of the totals of clusters.
    totals = np.bincount(clusters, inside - inside.mean())
    return {
        "part": part, "setting": setting, "estimator": estimator, "n_windows": len(cells),
        "mae": np.abs(value - truth).mean(), "worst": np.abs(value - truth).max(),
        "bias": (value - truth).mean(), "spearman": scipy.stats.spearmanr(value, truth).statistic,
        "coverage": inside.mean(), "coverage_se": float(np.sqrt((totals**2).sum()) / len(cells)),
        "width": np.mean([c[4] for c in cells]), "warned": 0.0,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=CSV)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.time()
    rows: list[dict[str, Any]] = []
    for use_domains in (True, False):
        rows += coverage(use_domains)
        print(f"coverage: {time.time() - start:.0f} s", flush=True)
        rows += errors("domains" if use_domains else "source only", use_domains)
        print(f"errors: {time.time() - start:.0f} s", flush=True)
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    commit = subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"
    versions = f"numpy {np.__version__}, scipy {scipy.__version__}"
    common = {"wildcal": __version__, "commit": commit}
    common["versions"] = f"{versions}, python {platform.python_version()}"
    with arguments.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            numbers = {k: f"{row[k]:.5f}" for k in NUMBERS if k in row}
            words = {k: row[k] for k in ("part", "setting", "estimator")}
            writer.writerow({**words, "windows": row["n_windows"], **numbers, **common})
    for row in rows:
        cells = [f"{row.get(k, float('nan')):9.4f}" for k in NUMBERS]
        print(f"{row['part']:24} {row['setting']:20} {row['estimator']:8}", *cells)


if __name__ == "__main__":
    main()
