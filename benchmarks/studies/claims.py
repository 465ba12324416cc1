"""The paper's claims, measured on every suite at hand: averages, differences to energy, the bound.

On each suite every method of the paper is fitted once and resampled with the same images, so that
differences have paired intervals. Where cells have few rows, chance makes most of their ECE: there
it is also measured with the types of a severity pooled. Writes claims.csv beside this file;
docs/make.py makes of it the verdicts in docs/reproduce.md.

Example
-------
    python benchmarks/studies/claims.py
    python benchmarks/studies/claims.py --suites imagenet-resnet18 my-suite --add
    python benchmarks/studies/claims.py --suites imagenet-vit-tiny=suites/vit --add

The last one measures a suite outside the package under a name of its own: here it takes the place
of the shipped sample of its rows.
"""

import argparse
import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wildcal import EnergyScaling
from wildcal._old import suites
from wildcal._old.cli.opening import open_suite
from wildcal._old.evaluation.protocol import Method, Results, choose_methods, run_protocol
from wildcal._old.evaluation.protocol.tuning import ood_set
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.report.average_tables import has_distances
from wildcal._old.report.names import data_name, network_name

HERE = Path(__file__).parent
RIVALS = ("identity", "ts", "ets", "irm", "irova", "irovats", "spline")
BOUNDS = ("paper", "none")
FEW_ROWS = 200
"""Of a cell: with fewer, the noise floor is above five points."""
WITH_DISTANCES = ("ets", "dac+ets", "spline", "dac+spline", "energy", "dac+energy")
COLUMNS = (
    *("suite", "data", "network", "rows", "tuned_with", "method", "metric"),
    *("value", "low", "high", "noise_floor", "clean", "severity_5"),
    *("minus", "difference", "difference_low", "difference_high"),
    *("theta_correct", "theta_incorrect"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--suites",
        nargs="+",
        type=named,
        metavar="[NAME=]SUITE",
        help="names or paths; default: all",
    )
    parser.add_argument("--add", action="store_true", help="keep the rows of other suites")
    parser.add_argument("--bootstrap", type=int, default=200)
    parser.add_argument("--output", type=Path, default=HERE / "claims.csv")
    options = parser.parse_args()
    chosen = dict(options.suites or [named(name) for name in suites.names()])
    rows: list[dict[str, object]] = []
    if options.add and options.output.exists():
        with options.output.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["suite"] not in chosen]
    for name, path in chosen.items():
        print(name, flush=True)
        rows += measure(name, open_suite(path), options.bootstrap)
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def named(text: str) -> tuple[str, Path]:
    """Return the name that the csv gives to a suite, and where the suite is.

    >>> named("vit=suites/vit")[0], named("suites/vit.npz")[0]
    ('vit', 'vit')
    """
    name, _, path = text.rpartition("=")
    return name or Path(path).stem, Path(path)


def measure(name: str, suite: Suite, n_boot: int) -> Iterator[dict[str, object]]:
    """Yield what is measured on a suite: all methods, either set, distances, other metrics."""
    sets = [ood_set(split.name) for split in suite.tune("semantic")]
    usual = "textures" if data_name(suite) == "imagenet" else "svhn"
    usual = usual if usual in sets else next(iter(sets), None)
    energies = [Method(f"energy-{name}", EnergyScaling(theta_bounds=name)) for name in BOUNDS]
    methods = [*choose_methods([*RIVALS, "energy-no-ood", "energy"]), *energies]
    about = {
        "suite": name,
        "data": data_name(suite),
        "network": network_name(suite),
        "rows": sum(split.rows for split in suite.tests() if split.shift != "semantic"),
    }
    for metrics, boot in (
        (("ece", "mean_confidence", "ood_auroc"), n_boot),
        (("kde_ece", "sce"), 0),
    ):
        results = run_protocol({name: suite}, methods, metrics=metrics, ood=usual, n_boot=boot)
        for row in rows_of(results, name, metrics, "energy"):
            yield about | {"tuned_with": usual} | row
    cells = [s for s in suite.tests("covariate") if s.severity]
    if cells and min(s.rows for s in cells) < FEW_ROWS:
        with tempfile.TemporaryDirectory() as folder:
            results = run_protocol(
                {name: pooled(suite, Path(folder))}, methods, metrics=("ece",), ood=usual,
                n_boot=n_boot,
            )  # fmt: skip
            for row in rows_of(results, name, ("ece",), "energy"):
                yield about | {"tuned_with": usual} | row | {"metric": "pooled_ece"}
    for other in (s for s in sets if s != usual):
        results = run_protocol(
            {name: suite}, choose_methods(["ts", "energy"]), metrics=("ece",), ood=other,
            n_boot=n_boot,
        )  # fmt: skip
        for row in rows_of(results, name, ("ece",), "energy"):
            yield about | {"tuned_with": other} | row
    if has_distances(suite):
        results = run_protocol(
            {name: suite}, choose_methods(list(WITH_DISTANCES)), metrics=("ece",), ood=usual,
            n_boot=n_boot,
        )  # fmt: skip
        for row in rows_of(results, name, ("ece",), None):
            if str(row["method"]).startswith("dac+"):
                yield about | {"tuned_with": usual} | row


def pooled(suite: Suite, folder: Path) -> Suite:
    """Write a suite whose types of corruption are one, with the same rows, and return it."""
    writer = SuiteWriter(
        folder / "pooled",
        network=suite.network,
        data=suite.data,
        seed=suite.seed,
        versions=suite.versions,
        n_classes=suite.n_classes,
        class_names=suite.class_names,
    )
    levels = {f"all-{level}": suite.tests("covariate", severity=level) for level in range(1, 6)}
    kept = [s for s in suite.splits if s.shift != "covariate"]
    for split in kept:
        writer.add(split.name, split.logits, split.y, role=split.role, shift=split.shift)
    for level, (name, splits) in enumerate(levels.items(), 1):
        writer.add(
            name,
            np.concatenate([s.logits for s in splits]),
            np.concatenate([s.y for s in splits]),
            role="test",
            shift="covariate",
            corruption="all",
            severity=level,
        )
    writer.finish([*(s.name for s in kept), *levels])
    return Suite.open(folder / "pooled")


def rows_of(
    results: Results, suite: str, metrics: tuple[str, ...], beside: str | None
) -> Iterator[dict[str, object]]:
    """Yield the averages of all methods, and how far each is from one; of dac+NAME, from NAME."""
    for method in results.suites[suite].methods:
        for metric in metrics:
            if metric in ("mean_confidence", "ood_auroc"):
                yield from _of_others(results, suite, method.name, metric)
                continue
            average = results.average(suite, method.name, metric)
            row: dict[str, object] = {
                "method": method.name,
                "metric": metric,
                "value": average.value,
                "low": average.low,
                "high": average.high,
                "noise_floor": average.floor,
                "clean": average.levels[0],
                "severity_5": average.levels[-1],
                "theta_correct": getattr(method.calibrator, "theta_correct_", None),
                "theta_incorrect": getattr(method.calibrator, "theta_incorrect_", None),
            }
            other = method.name.removeprefix("dac+") if beside is None else beside
            if other != method.name and results.suites[suite].replicates is not None:
                found = results.difference(suite, method.name, other, metric)
                row |= {
                    "minus": other,
                    "difference": found.value,
                    "difference_low": found.low,
                    "difference_high": found.high,
                }
            yield row


def _of_others(
    results: Results, suite: str, method: str, metric: str
) -> Iterator[dict[str, object]]:
    for split in results.ood_splits(suite):
        found = results.estimate(suite, method, split, metric)
        if found is not None:
            yield {
                "method": method,
                "metric": f"{metric} {split}",
                "value": found.value,
                "low": found.low,
                "high": found.high,
            }


if __name__ == "__main__":
    main()
