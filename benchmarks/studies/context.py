"""Find out what a context is worth, and whether its form was chosen well.

    python benchmarks/studies/context.py            a few minutes on two cores; writes context.csv
    python benchmarks/studies/context.py --quick    one network, few replicates, writes nothing
    python benchmarks/studies/context.py --test-only --suite FOLDER -o FILE     other networks
    python docs/make.py                             then, for the tables and the figure

1. Types left out, on tuning splits alone: fitted without one validation corruption, tested on it;
   without two of them, tested on a stream that mixes both with clean rows; on all, on transforms.
2. The test: tuned on the four validation corruptions, tested on the fifteen others, in whole splits
   and smaller windows, with other class mixes, on other classes, on streams of all conditions. Once
   more with the tuning transforms, where a suite has them.
"""

import argparse
import csv
import platform
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import context_leave_out
import context_tables
import numpy as np
import scipy
from rich.console import Console
from rich.progress import Progress

from wildcal import ContextScaling, FirstContextScaling, __version__, suites
from wildcal.core.rows import Rows
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
METHODS = ("identity", "ts", "ets", "irm", "energy", "context", "context-1", "ts-all", "ets-all",
           "irm-all", "energy-all", *context_tables.WINDOWED)  # fmt: skip
SLOW_OF_MANY, MANY = ("match+cot", "match+cot-map"), 50
"""What is left out of suites with more classes than this: windows of three of them take an hour."""
MIXES = ("context", "context-1", *context_tables.WINDOWED)
WINDOWS = (512, 128, 32)
STREAM_WINDOW = 512
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


# 1. Types left out.


def leave_out(table: Table, name: str, suite: Suite, step: Step) -> None:
    """Test both forms and a rival on tuning splits of types that they were not fitted on."""
    for method in context_leave_out.METHODS:
        step(f"{name}: leaving out, {method}")
        found = context_leave_out.measure(method, suite)
        for regime, (beyond, off) in found.items():
            table.add("leave-out", CORRUPTIONS, name, method, f"excess_ece: {regime}", beyond)
            table.add("leave-out", CORRUPTIONS, name, method, f"accuracy_off: {regime}", off)


# 2. The test.


def test(table: Table, tuned_on: str, opened: dict[str, Suite], n_boot: int, step: Step) -> None:
    """Test all methods on the corruption types that none of them was tuned on."""
    only = of_corruptions if tuned_on == CORRUPTIONS else everything
    is_large = any(suite.n_classes > MANY for suite in opened.values())
    names = [name for name in METHODS if not is_large or name not in SLOW_OF_MANY]
    methods = choose_methods(names)
    forms = (ContextScaling, FirstContextScaling)
    methods += [
        Method(f"{form.name}/{size}", form(), window=size) for form in forms for size in WINDOWS
    ]

    def report(doing: str, rows: int) -> None:
        step(f"{tuned_on}: {doing}")

    results = run_protocol(
        opened,
        methods,
        metrics=("ece", "accuracy", "mean_confidence"),
        n_boot=n_boot,
        only=only,
        progress=report,
    )
    # The other way round: tuned with Textures, tested on SVHN.
    swapped = run_protocol(
        opened,
        choose_methods(names),
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
        class_mixes(table, tuned_on, name, suite, fitted, types)
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
    again = [results.suites[name].replicates.cells["ece", "test"] for name in names]
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


def class_mixes(
    table: Table, tuned_on: str, name: str, suite: Suite, methods: tuple[FittedMethod, ...], types
) -> None:
    """Test on windows of 200 rows whose classes are mixed in another way than those of tuning."""
    rng = np.random.default_rng(1)
    cells = [s for s in suite.tests("covariate") if s.corruption in types]
    found: dict[tuple[str, str], list[float]] = {}
    for split in cells:
        correct = split.logits.argmax(1) == split.y
        for mix, strength in context_leave_out.MIXES.items():
            drawn = [context_leave_out.other_mix(rng, split.y, strength) for _ in range(4)]
            rows = np.concatenate(drawn)
            window = np.repeat(np.arange(len(drawn)), [len(some) for some in drawn])
            for method in methods:
                if method.name in MIXES:
                    bound = method.calibrator.bind(Rows(split.logits[rows], window=window))
                    confidence = in_range(bound.confidences())
                    value = excess(correct[rows], confidence)
                    found.setdefault((method.name, mix), []).append(value)
    for (method, mix), values in found.items():
        table.add("test", tuned_on, name, method, f"excess_ece: {mix}", float(np.mean(values)))


def in_stream(method: FittedMethod, logits: np.ndarray) -> np.ndarray:
    window = window_numbers([len(logits)], STREAM_WINDOW) if method.reads_window else None
    return method.calibrator.bind(Rows(logits, window=window)).confidences()


def main() -> None:
    """Run the study, write its csv, print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--suite", type=Path, action="append", help="instead of the shipped ones")
    parser.add_argument("--test-only", action="store_true", help="leave types out of no fit")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table, start = Table(), time.time()
    opened = {path.stem: Suite.open(path) for path in options.suite or ()}
    opened = opened or {name: suites.load(name) for name in suites.names("cifar10")}
    output = options.output or (None if options.quick else HERE / "context.csv")
    n_boot = 1000
    if options.quick:
        opened = dict(list(opened.items())[:1])
        n_boot = 20
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("Studying", total=None)

        def step(doing: str) -> None:
            progress.update(task, description=doing)

        for name, suite in () if options.test_only else opened.items():
            step(f"{name}: leaving out")
            with suite.opened():
                leave_out(table, name, suite, step)
        with_transforms = {
            name: suite
            for name, suite in opened.items()
            if not all(map(of_corruptions, suite.tune("covariate")))
        }
        for tuned_on, some in ((CORRUPTIONS, opened), (BOTH, with_transforms)):
            if some:
                test(table, tuned_on, some, n_boot, step)
            if output is not None:
                table.write(output)
    for part in context_tables.everything(table.rows):
        print(part, end="\n\n")
    where = "" if output is None else f"wrote {output} "
    print(f"{where}in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
