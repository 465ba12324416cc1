"""Results on the installed suites that README and docs show: tables and reliability curves.

    python benchmarks/studies/shipped.py          write shipped/NAME.csv, ten seconds
    python benchmarks/studies/shipped.py demo     only this one
    python docs/make.py                           then, for the pages

A csv holds a table as the pages show it; docs/make.py computes nothing.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from wildcal import evaluate, get_calibrator, run_benchmark, suites
from wildcal.cli.demo import FIRST
from wildcal.evaluation import BenchmarkResults, Evaluation
from wildcal.evaluation.diagnostics import pool_reliability
from wildcal.io.suite import Suite
from wildcal.metrics import METRICS
from wildcal.tables import number

FOLDER = Path(__file__).with_name("shipped")
SHOWN = ("accuracy", "mean_confidence", "ece", "nll", "brier_score", "ood_mean_confidence")
METHODS = ("identity", "ts", "energy")
PICTURED = (*METHODS, "window")
TEXTURES = "textures-test"
MIN_SAMPLES = 20
"""Bins of a reliability curve with fewer samples are not drawn."""
Line = Sequence[object]


@cache
def benchmark() -> BenchmarkResults:
    """Return the methods of the paper on the networks of CIFAR-10."""
    return run_benchmark(
        {name: suites.load(name) for name in suites.list("cifar10")},
        "paper",
        metrics=("accuracy", "mean_confidence", "ece", "ood_auroc"),
        n_bootstrap=200,
    )


def paper() -> Iterator[Line]:
    """Yield the average ECE of every method on each suite, the best in bold."""
    results = benchmark()
    names = list(results.suites)
    best = {name: results.ranked(name)[0].name for name in names}
    yield "method", "data used", *names
    for method in results.ranked(names[0]):
        cells = []
        for name in names:
            average = results.average(name, method.name)
            cell = str(number(average.value, average.interval))
            cells.append(f"**{cell}**" if best[name] == method.name else cell)
        shown = "uncalibrated" if method.name == "identity" else f"`{method.name}`"
        yield shown, str(method.information), *cells


def severity() -> Iterator[Line]:
    """Yield the ECE at each severity, and confidence and AUROC on OOD samples, of each suite."""
    results = benchmark()
    levels = results.conditions(FIRST)[1:]
    yield "network", "method", "clean", *levels, "confidence on Textures", "AUROC"
    for name in results.suites:
        for method in results.ranked(name):
            cells = [number(v).text for v in results.average(name, method.name).conditions]
            for metric in ("ood_mean_confidence", "ood_auroc"):
                estimate = results.estimate(name, method.name, TEXTURES, metric)
                cells.append(number(estimate.value, digits=1).text)
            yield name, f"`{method.name}`", *cells


def evaluations() -> dict[str, dict[str, Evaluation]]:
    """Return evaluations by samples, then method."""
    files = parts_of(suites.load(FIRST))

    def join(*names: str) -> list[np.ndarray]:
        return [np.concatenate([files[n][c] for n in names]) for c in ("logits", "y")]

    fitted = {}
    for name in METHODS:
        calibrator = get_calibrator(name)
        used = ("calibration", "svhn") if calibrator.uses_ood else ("calibration",)
        fitted[name] = calibrator.fit(*join(*used))
    samples = {"clean": join("test"), "shifted": join("shifted", "textures")}
    return {
        split: {name: evaluate(y, logits=z, calibrator=c) for name, c in fitted.items()}
        for split, (z, y) in samples.items()
    }


def parts_of(suite: Suite) -> dict[str, dict[str, np.ndarray]]:
    """Return logits and labels of parts of a suite, by name.

    The shifted samples are the corruptions at severity 3, each of other images, so that samples
    are independent. Of SVHN 100 samples are for the fit, as in the paper.
    """
    shifted = [split for split in suite.test if split.severity == 3]
    parts = {
        "calibration": [(suite.split("validation"), slice(None))],
        "svhn": [(suite.split("svhn-calibration"), slice(100))],
        "test": [(suite.split("test"), slice(None))],
        "textures": [(suite.split("textures-test"), slice(None))],
        "shifted": [(split, slice(i, None, len(shifted))) for i, split in enumerate(shifted)],
    }
    return {
        name: {
            column: np.concatenate([getattr(split, column)[kept] for split, kept in part])
            for column in ("logits", "y")
        }
        for name, part in parts.items()
    }


def demo() -> Iterator[Line]:
    """Yield the main numbers of `evaluations`."""
    yield "samples", "metric", "uncalibrated", "`ts`", "`energy`"
    for split, by_method in evaluations().items():
        for metric in (METRICS[name] for name in SHOWN):
            found = [by_method[m].estimates.get(metric.name) for m in METHODS]
            if found[0] is None:
                continue
            shown = {"percent": metric.is_percent, "digits": 1 if metric.is_percent else 3}
            yield split, metric.title, *(number(e.value, e.interval, **shown) for e in found)
            if found[0].floor is not None:
                yield split, "noise floor", *(number(e.floor, **shown) for e in found)


def reliability() -> Iterator[Line]:
    """Yield reliability curves under corruptions that no method was fitted on, at severity 3."""
    suite = suites.load(FIRST)
    fitted_on = {split.corruption for split in suite.calibration}
    unseen = [s for s in suite.test if s.severity == 3 and s.corruption not in fitted_on]
    results = run_benchmark({FIRST: suite}, PICTURED, metrics=("ece",), diagnostics=True)
    curves = results.suites[FIRST].diagnostics.reliability
    yield "method", "corruptions", "ece", "confidence", "accuracy", "low", "high"
    for method in PICTURED:
        curve = pool_reliability(curves[split.name][method] for split in unseen)
        for i in np.flatnonzero(curve.count >= MIN_SAMPLES):
            point = (curve.confidence[i], curve.accuracy[i], curve.low[i], curve.high[i])
            yield method, len(unseen), *(f"{value:.4f}" for value in (curve.ece, *point))


TABLES = {f.__name__: f for f in (paper, severity, demo, reliability)}


def main() -> None:
    """Write the tables that are named, by default all."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or TABLES:
        lines = list(TABLES[name]())
        with (FOLDER / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
