"""What the shipped suites show, for README and docs: the numbers of `make demo`, curves.

    python benchmarks/studies/shipped.py    writes shipped/NAME.csv, a few minutes
    python docs/make.py                     then, for the pages

A csv holds a table as the pages show it; docs/make.py computes nothing.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from wildcal._old import suites
from wildcal._old.evaluation import METRICS, Evaluation, evaluate_calibrator
from wildcal._old.evaluation.protocol import Results, choose_methods, run_protocol
from wildcal._old.evaluation.suite_table import suite_table
from wildcal._old.metrics import TopLabelAccumulator
from wildcal._old.tables import number

from wildcal import Identity, get_calibrator
from wildcal.cli.demo import FIRST, demo_files
from wildcal.suites import load

FOLDER = Path(__file__).with_name("shipped")
SHOWN = ("accuracy", "mean_confidence", "ece", "noise_floor", "nll", "brier", "ood_mean_confidence")
METHODS = ("identity", "ts", "energy")
PICTURED = (*METHODS, "window")
Line = Sequence[object]


@cache
def protocol() -> Results:
    """Return what `make demo` computes in its first part."""
    shipped = {name: suites.load(name) for name in suites.names("cifar10")}
    return run_protocol(
        shipped,
        choose_methods(),
        metrics=("accuracy", "mean_confidence", "ece", "ood_auroc"),
        n_boot=200,
    )


def paper() -> Iterator[Line]:
    """Yield the average ECE of every method on the shipped suites, the best in bold."""
    results = protocol()
    names = list(results.suites)
    yield "method", "knew", *names
    for method in results.ranked(names[0]):
        cells = []
        for name in names:
            average = results.average(name, method.name)
            cell = str(number(average.value, average.interval))
            cells.append(f"**{cell}**" if results.ranked(name)[0].name == method.name else cell)
        shown = "uncalibrated" if method.name == Identity.name else f"`{method.name}`"
        yield shown, method.knew.words(), *cells


def severity() -> Iterator[Line]:
    """Yield the ECE at each severity, and what becomes of unseen classes, for every suite."""
    results = protocol()
    levels = [str(level) for level in range(6)]
    yield "network", "method", "clean", *levels[1:], "confidence on Textures", "AUROC"
    for name in results.suites:
        table = suite_table(results, name)
        others = [i for i, head in enumerate(table.heads) if head.endswith("textures-test")]
        for row in table.rows:
            cells = [row[table.heads.index(level)].text for level in levels]
            cells += [number(row[i].value, digits=1).text for i in others]
            yield name, f"`{row[0].text}`", *cells


def evaluations() -> dict[str, dict[str, Evaluation]]:
    """Return what `make demo` computes in its second part: split -> method -> evaluation."""
    files = demo_files(load(FIRST))

    def join(*names: str) -> tuple[np.ndarray, ...]:
        return tuple(np.concatenate([files[n][c] for n in names]) for c in ("logits", "y"))

    fitted = {
        name: get_calibrator(name).fit(
            *join(*(["calibration", "svhn"] if name == "energy" else ["calibration"]))
        )
        for name in METHODS
    }
    splits = {"clean": join("test"), "shifted": join("shifted", "textures")}
    return {
        split: {name: evaluate_calibrator(c, *data) for name, c in fitted.items()}
        for split, data in splits.items()
    }


def demo() -> Iterator[Line]:
    """Yield the main numbers of the second part of `make demo`."""
    yield "rows", "metric", "uncalibrated", "`ts`", "`energy`"
    for split, by_method in evaluations().items():
        for metric in SHOWN:
            found = [by_method[m].estimates.get(metric) for m in METHODS]
            if found[0] is None:
                continue
            percent = METRICS[metric].percent
            digits = 1 if percent else 3
            cells = [number(e.value, e.interval, percent=percent, digits=digits) for e in found]
            yield split, METRICS[metric].title.strip(), *cells


def reliability() -> Iterator[Line]:
    """Yield the points of reliability curves under corruptions that no method was tuned on."""
    suite = suites.load(FIRST)
    found = run_protocol({FIRST: suite}, choose_methods(PICTURED), observe=True).suites[FIRST]
    tuned_on = {split.corruption for split in suite.tune("covariate")}
    cells = [s for s in suite.tests("covariate", severity=3) if s.corruption not in tuned_on]
    seen = [TopLabelAccumulator() for _ in found.methods]
    for split in cells:
        kept = found.observed.cells[f"{split.corruption.replace('_', ' ')}, severity 3"]
        for table, new in zip(seen, kept, strict=True):
            table.merge(new)
    yield "method", "corruptions", "ece", "confidence", "accuracy", "low", "high"
    for method, table in zip(found.methods, seen, strict=True):
        curve = table.reliability()
        points = zip(curve.confidence, curve.accuracy, curve.low, curve.high, strict=True)
        for count, point in zip(curve.count, points, strict=True):
            if count >= 20:
                numbers = (f"{value:.4f}" for value in (table.ece(), *point))
                yield method.name, len(cells), *numbers


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
