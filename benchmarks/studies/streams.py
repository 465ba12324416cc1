"""Compare methods on streams that mix conditions milder or harder than those they were tuned on.

    python benchmarks/studies/streams.py                    four minutes; writes streams.csv
    python benchmarks/studies/streams.py --suites FOLDER    with further networks

Tuning splits alone. Two of the four validation corruptions are left out in turn, methods that
learn from environments are fitted on the other two, at all severities, and a stream mixes what was
left out with a sixth of clean rows: severities 1 and 2 ("milder"), all of them, or 4 and 5
("harder"). Then fitted on all four, and tested on a stream of the transforms; and fitted on the
transforms, and tested on streams of the four corruptions.

Excess ECE over windows of 512 rows, and how far mean confidence lies above accuracy; means over
pairs and networks of so many classes. Intervals are bootstraps over windows, the same draws for all
methods.
"""

import argparse
import csv
import itertools
import platform
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy
from window import (
    STREAM_WINDOWS,
    TUNED_ON,
    Window,
    commit,
    confidences,
    excess,
    stream_of,
)

from wildcal import __version__, suites
from wildcal.evaluation.methods import choose_methods
from wildcal.evaluation.protocol.fitted import fit_method
from wildcal.evaluation.protocol.tuning import read_tuning
from wildcal.io.suite import Suite, SuiteSplit

CSV = Path(__file__).with_name("streams.csv")
METHODS = ("ts", "match+atc-ne", "ts-all", "energy-all", "md-ts", "context-1", "context")
STRENGTHS = {"milder": (1, 2), "all": (1, 2, 3, 4, 5), "harder": (4, 5)}
FIELDS = ("classes", "networks", "tuned_on", "stream", "method", "knew", "metric", "value", "low",
          "high", "wildcal", "commit", "versions")  # fmt: skip
REPLICATES = 200
Seen = tuple[list[np.ndarray], list[np.ndarray]]
"""Confidence and correctness of the rows of each window."""


def rounds(suite: Suite) -> Iterator[tuple[str, set[str], dict[str, list[SuiteSplit]]]]:
    """Yield what a fit is tuned on, its types, and the splits of each stream that tests it."""
    shifted = suite.tune("covariate")
    others = {str(split.corruption) for split in shifted} - set(TUNED_ON)

    def of_types(types: tuple[str, ...]) -> dict[str, list[SuiteSplit]]:
        mine = [split for split in shifted if split.corruption in types]
        return {
            name: [split for split in mine if split.severity in strength]
            for name, strength in STRENGTHS.items()
        }

    for left in itertools.combinations(TUNED_ON, 2):
        yield "two corruptions", set(TUNED_ON) - set(left), of_types(left)
    if others:
        transforms = [split for split in shifted if split.corruption in others]
        yield "four corruptions", set(TUNED_ON), {"transforms": transforms}
        yield "transforms", others, of_types(TUNED_ON)


def measure(suite: Suite, found: dict[tuple[str, str, str], list[Seen]]) -> dict[str, str]:
    """Add what each method shows on each stream, and return what each knew."""
    (clean,) = suite.tune("none")
    knew = {}
    for tuned_on, types, streams in rounds(suite):
        tuning = read_tuning(suite, None, None, lambda s, types=types: s.corruption in types)
        fitted = [fit_method(method, tuning) for method in choose_methods(METHODS)]
        for stream, splits in streams.items():
            windows: list[Window] = stream_of(splits, clean)
            for method in fitted:
                seen = confidences(method.calibrator, windows)
                found.setdefault((tuned_on, stream, method.name), []).append(seen)
                if tuned_on == "four corruptions":
                    knew[method.name] = method.knew.words()
    return knew


def numbers(of: list[Seen]) -> Iterator[tuple[str, float, float, float]]:
    """Yield each metric with its interval: the mean over networks and pairs."""

    def means(draw: np.ndarray) -> tuple[float, float]:
        chosen = [([top[i] for i in draw], [right[i] for i in draw]) for top, right in of]
        above = [
            np.mean(np.concatenate(top)) - np.mean(np.concatenate(right)) for top, right in chosen
        ]
        return float(np.mean([excess(*some) for some in chosen])), float(np.mean(above))

    rng = np.random.default_rng(0)
    draws = rng.integers(0, STREAM_WINDOWS, (REPLICATES, STREAM_WINDOWS))
    values = means(np.arange(STREAM_WINDOWS))
    again = np.array([means(draw) for draw in draws])
    # What draws of windows add to an excess is no part of it: the spread alone is taken.
    low, high = np.quantile(again - again.mean(axis=0), (0.025, 0.975), axis=0)
    for i, metric in enumerate(("excess_ece", "above_accuracy")):
        yield metric, values[i], values[i] + low[i], values[i] + high[i]


def main() -> None:
    """Measure all networks and write the csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suites", type=Path, nargs="+", default=[], metavar="FOLDER")
    parser.add_argument("-o", "--output", type=Path, default=CSV)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    versions = f"numpy {np.__version__}, scipy {scipy.__version__}"
    company = [__version__, commit(), f"{versions}, python {platform.python_version()}"]
    shipped = [*suites.names("cifar10"), "cifar100-resnet20"]
    chosen = {name: suites.load(name) for name in shipped}
    chosen |= {path.name: Suite.open(path) for path in options.suites}
    lines = []
    for classes in sorted({suite.n_classes for suite in chosen.values()}):
        found: dict[tuple[str, str, str], list[Seen]] = {}
        names, knew = [], {}
        for name, suite in chosen.items():
            if suite.n_classes == classes:
                with suite.opened():
                    knew = measure(suite, found)
                names.append(name)
                print(name, flush=True)
        for (tuned_on, stream, method), seen in found.items():
            for metric, *values in numbers(seen):
                where = [classes, " ".join(names), tuned_on, stream, method, knew[method], metric]
                lines.append([*where, *(f"{value:.5f}" for value in values), *company])
                print(*where[2:5], metric, *(f"{100 * value:.2f}" for value in values), flush=True)
    with options.output.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([FIELDS, *lines])


if __name__ == "__main__":
    main()
