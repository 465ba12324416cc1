"""Find out what a context is worth, and whether its form was chosen well.

    python benchmarks/studies/context.py            a few minutes on two cores; writes context.csv
    python benchmarks/studies/context.py --quick    one network, few replicates, writes nothing
    python docs/make.py                             then, for the tables and the figure

1. The form, on tuning splits alone: fitted without one validation corruption, tested on it; and
   fitted without two of them, tested on a stream that mixes both with clean rows.
2. The test: tuned on the four validation corruptions, tested on the fifteen others, in whole splits
   and in smaller windows; on images of other classes; on streams that mix all conditions. And once
   more with the tuning transforms, where a suite has them.
"""

import argparse
import csv
import itertools
import platform
import subprocess
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import context_tables
import numpy as np
import scipy
from context_forms import FORMS, Form, Tuning
from rich.console import Console
from rich.progress import Progress

from wildcal import ContextScaling, __version__, suites
from wildcal.core.rows import Rows
from wildcal.evaluation import environments
from wildcal.evaluation.environments import everything
from wildcal.evaluation.protocol import (
    Average,
    FittedMethod,
    Method,
    Results,
    choose_methods,
    run_protocol,
)
from wildcal.evaluation.protocol.windows import window_numbers
from wildcal.io.suite import Suite, SuiteSplit
from wildcal.metrics import ece, noise_floor

HERE = Path(__file__).parent
TUNED_ON = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The corruptions that the ImageNet-C authors set aside for validation."""
CORRUPTIONS, BOTH = context_tables.CORRUPTIONS, context_tables.BOTH
MEAN = context_tables.MEAN
METHODS = ("identity", "ts", "ets", "irm", "energy", "context", "ts-all", "ets-all", "irm-all",
           "energy-all")  # fmt: skip
WINDOWS = (512, 128, 32)
STREAM_WINDOW = 512
RIVALS = ("ts", "energy", "ts-all", "energy-all")
"""Those that stand beside the forms."""
Step = Callable[[str], None]
Confidence = Callable[..., np.ndarray]
FIELDS = ("part", "tuned_on", "network", "method", "knew", "metric", "value", "low", "high",
          "noise_floor", "rows", "wildcal", "commit", "versions")  # fmt: skip


def commit() -> str:
    """Return the short hash of the code that runs."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


class Table:
    """The rows of the csv."""

    def __init__(self) -> None:
        versions = f"numpy {np.__version__}, scipy {scipy.__version__}"
        # The commit now, before the csv itself makes the checkout dirty.
        self.company = __version__, commit(), f"{versions}, python {platform.python_version()}"
        self.rows: list[dict[str, str]] = []

    def add(self, part: str, tuned_on: str, network: str, method: str, metric: str, value: float,
            *, knew: str = "", low: float | None = None, high: float | None = None,
            floor: float | None = None, rows: int | None = None) -> None:  # fmt: skip
        numbers = ["" if x is None else f"{x:.5f}" for x in (value, low, high, floor)]
        line = (part, tuned_on, network, method, knew, metric, *numbers, rows or "", *self.company)
        self.rows.append(dict(zip(FIELDS, map(str, line), strict=True)))

    def add_means(self, tuned_on: str, method: str) -> None:
        """Add the means over networks of the numbers that have none yet."""
        of_method = {"part": "test", "tuned_on": tuned_on, "method": method}
        mine = [r for r in self.rows if all(r[k] == v for k, v in of_method.items())]
        done = {r["metric"] for r in mine if r["network"] == MEAN}
        for metric in dict.fromkeys(r["metric"] for r in mine if r["metric"] not in done):
            some = [r for r in mine if r["metric"] == metric]
            floors = [float(r["noise_floor"]) for r in some if r["noise_floor"]]
            self.add(
                "test", tuned_on, MEAN, method, metric, np.mean([float(r["value"]) for r in some]),
                knew=some[0]["knew"], floor=float(np.mean(floors)) if floors else None,
            )  # fmt: skip

    def write(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)


def of_corruptions(split: SuiteSplit) -> bool:
    return split.corruption in TUNED_ON


def in_range(confidence: np.ndarray) -> np.ndarray:
    return np.minimum(confidence.astype(np.float64), 1.0)


def excess(correct: np.ndarray, confidence: np.ndarray) -> float:
    return ece(correct, confidence) - noise_floor(confidence)


# 1. The form.


def leave_out(table: Table, name: str, suite: Suite, forms: tuple[Form, ...], step: Step) -> None:
    """Test forms and rivals on the tuning splits of types that they were not fitted on."""
    rows, splits = environments(suite), suite.tune("covariate")
    tuning = Tuning(suite, rows, [None, *(split.corruption for split in splits), None])
    transforms = {str(split.corruption) for split in splits} - set(TUNED_ON)
    check_product(tuning)
    for form in forms:
        if form.transforms and not transforms:
            continue
        step(f"{name}: {form.name}")
        kept = {*TUNED_ON, *(transforms if form.transforms else ())}

        def fitted(left: tuple[str, ...], form: Form = form, kept: set[str] = kept) -> Confidence:
            return partial(tuning.confidence, tuning.fit(form, kept - set(left)))

        measure_left_out(table, name, form.name, tuning, fitted)
    for method in choose_methods(RIVALS):
        step(f"{name}: {method.name}")

        def fitted(left: tuple[str, ...], method: Method = method) -> Confidence:
            tuned_on = set(TUNED_ON) - set(left) if method.sees("shifted") else ()
            some = tuning.rows(tuned_on, strangers=method.uses_ood)
            weight = some.weights() if method.sees("shifted") else None
            calibrator = method.calibrator.fit(some.logits, some.y, sample_weight=weight)
            return lambda rows, window=None: calibrator.confidence(tuning.logits[rows])

        measure_left_out(table, name, method.name, tuning, fitted)


def measure_left_out(
    table: Table, name: str, label: str, tuning: Tuning, fitted: Callable[..., Confidence]
) -> None:
    """Add the numbers of one form: cell by cell of one type left out, and mixed, of two."""
    found: dict[str, list[float]] = {"excess_ece": [], "accuracy_mae": [], "mixed_excess_ece": []}
    for left in TUNED_ON:
        confidence_of = fitted((left,))
        for number in np.unique(tuning.environment[tuning.types == left]):
            cell = np.flatnonzero(tuning.environment == number)
            confidence, correct = in_range(confidence_of(cell)), tuning.correct[cell]
            found["excess_ece"].append(excess(correct, confidence))
            found["accuracy_mae"].append(abs(confidence.mean() - correct.mean()))
    for pair in itertools.combinations(TUNED_ON, 2):
        stream = np.flatnonzero(np.isin(tuning.types, pair) | (tuning.environment == 0))
        stream = np.random.default_rng(0).permutation(stream)
        confidence = in_range(fitted(pair)(stream, STREAM_WINDOW))
        found["mixed_excess_ece"].append(excess(tuning.correct[stream], confidence))
    for metric, values in found.items():
        table.add("leave-out", CORRUPTIONS, name, label, metric, float(np.mean(values)))


def check_product(tuning: Tuning) -> None:
    """Stop if the form that is studied is not the one that is shipped."""
    rows = tuning.rows(TUNED_ON, strangers=True)
    shipped = ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)
    studied = tuning.fit(FORMS[0], TUNED_ON)
    if not np.allclose(studied, shipped.coefficients_, atol=1e-3):
        raise SystemExit(f"the study fits {studied}, the product {shipped.coefficients_}")


# 2. The test.


def test(table: Table, tuned_on: str, opened: dict[str, Suite], n_boot: int, step: Step) -> None:
    """Test all methods on the corruption types that none of them was tuned on."""
    only = of_corruptions if tuned_on == CORRUPTIONS else everything
    methods = choose_methods(METHODS)
    methods += [Method(f"context/{size}", ContextScaling(), window=size) for size in WINDOWS]

    def report(doing: str, rows: int) -> None:
        step(f"{tuned_on}: {doing}")

    results = run_protocol(opened, methods, n_boot=n_boot, only=only, progress=report)
    # The other way round: tuned with Textures, tested on SVHN.
    swapped = run_protocol(
        opened,
        choose_methods(METHODS),
        metrics=["mean_confidence"],
        ood="textures",
        only=only,
        progress=report,
    )
    if results.skipped or any(found.failed for found in results.suites.values()):
        raise SystemExit(f"not everything could be measured: {results.skipped}")
    for name, suite in opened.items():
        fitted, types = results.suites[name].methods, unseen(suite)
        for method in fitted:
            add_averages(table, tuned_on, results, [name], method.name, types, name)
            for metric, value in single_numbers(results, swapped, name, method.name, types).items():
                table.add(
                    "test", tuned_on, name, method.name, metric, value, knew=method.knew.words()
                )
        step(f"{tuned_on}: {name}: streams")
        streams(table, tuned_on, name, suite, fitted, types)
    common = set.intersection(*(unseen(suite) for suite in opened.values()))
    for method in methods:
        add_averages(table, tuned_on, results, list(opened), method.name, common, MEAN)
        table.add_means(tuned_on, method.name)


def unseen(suite: Suite) -> set[str]:
    """Return the corruption types of the tests that are no validation corruptions."""
    return {str(split.corruption) for split in suite.tests("covariate")} - set(TUNED_ON)


def add_averages(
    table: Table, tuned_on: str, results: Results, names: list[str], method: str, types, label: str
) -> None:
    """Add the average ECE, over one network or several, with intervals over images.

    The networks were tested on the same images, so one resample of images serves them all.
    """
    knew = next(m.knew.words() for m in results.suites[names[0]].methods if m.name == method)

    def averages_of(which: str) -> list[Average]:
        return [results.average(name, which, types=types) for name in names]

    def resampled(which: str) -> tuple[float, float, np.ndarray]:
        averages = averages_of(which)
        value = float(np.mean([a.value for a in averages]))
        floor = float(np.mean([a.floor for a in averages]))
        drawn = np.mean([results.drawn(name, which, types=types) for name in names], axis=0)
        return value, floor, drawn

    def low_high(values: np.ndarray) -> dict[str, float]:
        low, high = np.quantile(values, [0.025, 0.975])
        return {"low": max(0.0, low), "high": high}

    value, floor, drawn = resampled(method)
    energy_value, energy_floor, energy_drawn = resampled("energy")
    where = ("test", tuned_on, label, method)
    levels = np.mean([average.levels for average in averages_of(method)], axis=0)
    for severity, mean in enumerate(levels):
        table.add(*where, f"ece_severity_{severity}", mean, knew=knew)
    # Replicates are biased upward as the value is; reflecting removes it.
    table.add(*where, "ece", value, knew=knew, floor=floor, **low_high(2 * value - drawn))
    # The floor has been taken off already, so here the replicates give the spread alone.
    mine = value - floor - (drawn - drawn.mean())
    energy = energy_value - energy_floor - (energy_drawn - energy_drawn.mean())
    table.add(*where, "excess_ece", value - floor, knew=knew, **low_high(mine))
    ratio = (value - floor) / (energy_value - energy_floor)
    table.add(*where, "ratio_to_energy", ratio, knew=knew, **low_high(mine / energy))
    clean = [results.record(name, method, "test", "ece").value for name in names]
    again = [results.suites[name].replicates.cells["test"] for name in names]
    rows = [results.suites[name].index(method) for name in names]
    drawn = np.mean([cells[row] for cells, row in zip(again, rows, strict=True)], axis=0)
    table.add(
        *where, "clean_ece", np.mean(clean), knew=knew, **low_high(2 * np.mean(clean) - drawn)
    )


def single_numbers(
    results: Results, swapped: Results, name: str, method: str, types
) -> dict[str, float]:
    """Return the numbers of one network that have no interval."""
    by_split = {
        (r.split, r.metric): r.value
        for r in results.select(suite=name, method=method)
        if r.corruption in types
    }
    splits = {split for split, _ in by_split}
    misses = [abs(by_split[s, "mean_confidence"] - by_split[s, "accuracy"]) for s in sorted(splits)]
    strange = results.record(name, method, "textures-test", "mean_confidence").value
    found = {"accuracy_mae": float(np.mean(misses)), "confidence_textures": strange}
    if method in {m.name for m in swapped.suites[name].methods}:
        record = swapped.record(name, method, "svhn-test", "mean_confidence")
        found["confidence_svhn"] = record.value
    return found


def streams(
    table: Table, tuned_on: str, name: str, suite: Suite, methods: tuple[FittedMethod, ...], types
) -> None:
    """Test on rows of all unseen types, all severities and clean ones, in random order."""
    rng = np.random.default_rng(0)
    cells = [s for s in suite.tests("covariate") if s.corruption in types]
    clean = suite.tests("none")[0]
    # As many rows of each severity as of clean images, or all that there are.
    few = clean.rows // len(types)
    for metric, n in (("mixed_ece", None), ("mixed_sixth_clean_ece", few)):
        chosen = [rng.permutation(split.rows)[:n] for split in cells]
        parts = list(zip(cells, chosen, strict=True))
        logits = np.concatenate([clean.logits, *(split.logits[i] for split, i in parts)])
        y = np.concatenate([clean.y, *(split.y[i] for split, i in parts)])
        order = rng.permutation(len(y))
        logits, y = logits[order], y[order]
        correct = logits.argmax(1) == y
        for method in methods:
            if "/" in method.name:
                continue
            confidence = in_range(in_stream(method, logits))
            table.add(
                "test", tuned_on, name, method.name, metric, ece(correct, confidence),
                knew=method.knew.words(), floor=noise_floor(confidence), rows=len(y),
            )  # fmt: skip


def in_stream(method: FittedMethod, logits: np.ndarray) -> np.ndarray:
    window = window_numbers([len(logits)], STREAM_WINDOW) if method.reads_window else None
    return method.calibrator.bind(Rows(logits, window=window)).confidences()


def main() -> None:
    """Run the study, write its csv, print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--suite", type=Path, action="append", help="instead of the shipped ones")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table, start = Table(), time.time()
    opened = {path.stem: Suite.open(path) for path in options.suite or ()}
    opened = opened or {name: suites.load(name) for name in suites.names("cifar10")}
    forms, n_boot = FORMS, 1000
    if options.quick:
        opened = dict(list(opened.items())[:1])
        forms, n_boot = FORMS[:2], 20
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("Studying", total=None)

        def step(doing: str) -> None:
            progress.update(task, description=doing)

        for name, suite in opened.items():
            step(f"{name}: leaving out")
            with suite.opened():
                leave_out(table, name, suite, forms, step)
        with_transforms = {
            name: suite
            for name, suite in opened.items()
            if not all(map(of_corruptions, suite.tune("covariate")))
        }
        test(table, CORRUPTIONS, opened, n_boot, step)
        if with_transforms:
            test(table, BOTH, with_transforms, n_boot, step)
    output = options.output or (None if options.quick else HERE / "context.csv")
    if output is not None:
        table.write(output)
    for part in context_tables.everything(table.rows):
        print(part, end="\n\n")
    where = "" if output is None else f"wrote {output} "
    print(f"{where}in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
