"""Compare all methods that read a window with those that know less or more, regime by regime.

    python benchmarks/studies/window.py                  tuning types alone: about two minutes
    python benchmarks/studies/window.py --parts test     a look at the 15 test types: five minutes
    python benchmarks/studies/window.py --quick          one network, two types; writes nothing
    python benchmarks/studies/window.py --suites FOLDER --methods ts,match+cot    other networks

Part "tuning": each of the four validation corruptions is left out in turn, methods are fitted on
the clean validation rows (and on the other three types, where they learn from environments), and
the type left out is measured. Part "test": fitted on all four, measured on the 15 types that no
fit saw. Every run of that part is a look at the test types; docs/theory/looks.md counts them.

Windows: whole splits, 128, 32, 8 rows and 1 row; 256 rows with other class mixes; 512 rows, half of
them clean; and a stream in which all conditions are mixed. Two oracles know the labels of the
window. Intervals are bootstraps over corruption types (for the stream: over windows), the same
draws for all methods.
"""

import argparse
import csv
import os
import platform
import subprocess
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from zlib import crc32

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy

from wildcal import CALIBRATORS, ContextScaling, __version__, suites
from wildcal.accuracy.compare import draw_window
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.errors import CalibrationWarning
from wildcal.core.rows import Rows
from wildcal.evaluation.methods import Method, choose_methods
from wildcal.evaluation.protocol.fitted import fit_method
from wildcal.evaluation.protocol.tuning import read_tuning
from wildcal.io.suite import Suite
from wildcal.metrics import ece, noise_floor
from wildcal.window import matched_temperature

HERE = Path(__file__).parent
CSV = HERE / "window.csv"
TUNED_ON = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The corruptions that the ImageNet-C authors set aside for validation."""
FORMS = tuple(name for name in ("context-1", "context") if name in CALIBRATORS)
# The second form has coefficients of its own where there are no environments.
CLEAN_FORM = ("context@clean",) if len(FORMS) == 2 else ()
# Told that classes come as often as among clean rows, which what reads all classes of a window
# (cot, cott, cot-map, nuclear-norm) takes for granted.
TOLD = {"context (known mix)": None, "context@clean (known mix)": {"clean"}}
"""And the rows that these are fitted on."""
ROWS_ALONE, WINDOW, ENVIRONMENTS, BOTH, ORACLE = (
    "clean labels", "+ window", "+ environments", "+ both", "labels of the window",
)  # fmt: skip
TIERS = {
    ROWS_ALONE: ("identity", "ts", "ts@clean,ood", "energy", "smart"),
    WINDOW: ("match+ac", "match+doc", "match+im", "match+cbpe", "match+atc-mc", "match+atc-ne",
             "match+cot", "match+cott", "ace", "cpcs", "transcal", "em-bcts", *CLEAN_FORM,
             "context@clean (known mix)"),
    ENVIRONMENTS: ("ts-all", "energy-all", "md-ts"),
    BOTH: ("match+doc-reg", "match+mano", "match+mde", "match+nuclear-norm", "match+cot-map",
           "match+context", "ap", *FORMS, "context (known mix)"),
    ORACLE: ("oracle accuracy", "oracle temperature"),
}  # fmt: skip
TIER = {method: tier for tier, methods in TIERS.items() for method in methods}
SLOW = ("cpcs", "transcal")
"""A logistic regression for each window: whole splits and class mixes only."""
SLOW_OF_MANY, MANY = ("smart", "match+cbpe"), 200
"""Not with more classes than this."""
TINY = ("identity", "ts", "energy", "match+atc-ne", "match+cot", "match+cot-map", "ace", "em-bcts",
        "match+nuclear-norm", "ap", *FORMS, *CLEAN_FORM, *TOLD, "energy-all",
        *TIERS[ORACLE])  # fmt: skip
"""Methods that windows of 8 rows and of 1 row are shown to."""
SETTINGS = {
    "whole": (None, "clean", 1),
    "128 rows": (128, "clean", 3),
    "32 rows": (32, "clean", 8),
    "8 rows": (8, "clean", 8),
    "1 row": (1, "clean", 32),
    "256 rows, Dirichlet(1)": (256, "dirichlet-1", 1),
    "256 rows, Dirichlet(0.3)": (256, "dirichlet-0.3", 1),
    "256 rows, three classes": (256, "three", 1),
    "512 rows, half clean": (512, "half", 1),
}
"""Rows, mix, and windows of each split; but for whole ones, of severities 1, 3 and 5."""
LEAST_ROWS = 128
"""Of a tuning split: a smaller one is no window."""
STREAM = "stream, 1/6 clean"
STREAM_WINDOW, STREAM_WINDOWS = 512, 20
REPLICATES, STREAM_REPLICATES = 1000, 200
ALL = "all networks"
FIELDS = ("part", "network", "setting", "tier", "method", "knew", "metric", "value", "low", "high",
          "wildcal", "commit", "versions")  # fmt: skip


@dataclass
class Window:
    """Rows that arrive together."""

    setting: str
    severity: int
    logits: np.ndarray
    y: np.ndarray
    expected: float
    """The accuracy of the split on rows with these classes."""
    parts: list[tuple[str, np.ndarray]]
    """Which rows of which splits they are, in order."""


@dataclass
class Found:
    """What a method was measured at: excess ECE and accuracy error of each type, by setting."""

    excess: dict[tuple[str, str, str], float] = field(default_factory=dict)
    off: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """By network, setting and type."""
    stream: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = field(default_factory=dict)
    """Confidence and correctness in each window of the stream, by network."""
    clean: dict[str, float] = field(default_factory=dict)
    """ECE of the clean test split, by network."""
    knew: str = ""


def commit() -> str:
    """Return the short hash of the code that runs."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def windows_of(splits, clean) -> list[Window]:
    """Return the windows of the splits of one type."""
    found = []
    for split in splits:
        right = split.logits.argmax(axis=1) == split.y
        n_classes = split.logits.shape[1]
        counts = np.maximum(np.bincount(split.y, minlength=n_classes), 1)
        by_class = np.bincount(split.y, right, n_classes) / counts
        for setting, (size, mix, draws) in SETTINGS.items():
            if size is not None and split.severity not in (None, 1, 3, 5):
                continue
            rng = np.random.default_rng(crc32(f"{split.name} {setting}".encode()))
            order = rng.permutation(split.rows)
            if size is not None and size > split.rows * (2 if mix == "half" else 1):
                continue
            for draw in range(min(draws, split.rows // (size or 1) or 1)):
                if mix == "half":
                    mine, others = order[: size // 2], rng.permutation(clean.rows)[: size // 2]
                    z = np.concatenate([split.logits[mine], clean.logits[others]])
                    y = np.concatenate([split.y[mine], clean.y[others]])
                    expected = float((z.argmax(axis=1) == y).mean())
                    parts = [(split.name, mine), (clean.name, others)]
                else:
                    clean_mix = mix == "clean"
                    start = draw * (size or 0)
                    mine = order[start : start + (size or split.rows)] if clean_mix else (
                        draw_window(split.y, size, mix, rng))  # fmt: skip
                    z, y = split.logits[mine], split.y[mine]
                    expected, parts = float(by_class[y].mean()), [(split.name, mine)]
                found.append(Window(setting, split.severity or 0, z, y, expected, parts))
    return found


def kind_of(split) -> str:
    """Return the type of a shift: its corruption, or where nature made it, its own name."""
    return split.corruption or split.name


def stream_of(splits, clean) -> list[Window]:
    """Return windows in which all conditions are mixed, a sixth of the rows clean."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(STREAM_WINDOWS):
        which = rng.integers(0, len(splits), STREAM_WINDOW)
        which[rng.random(STREAM_WINDOW) < 1 / 6] = -1
        columns, parts = [], []
        for number in np.unique(which):
            split = clean if number < 0 else splits[number]
            mine = rng.integers(0, split.rows, int((which == number).sum()))
            columns.append((split.logits[mine], split.y[mine]))
            parts.append((split.name, mine))
        z, y = (np.concatenate(column) for column in zip(*columns, strict=True))
        found.append(Window(STREAM, 0, z, y, float((z.argmax(axis=1) == y).mean()), parts))
    return found


def confidences(method, windows) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return confidence and correctness of the rows of each window.

    A method is a fitted calibrator, or a function from a window to its temperature.
    """
    z = np.concatenate([w.logits for w in windows])
    y = np.concatenate([w.y for w in windows])
    sizes = [len(w.y) for w in windows]
    number = np.repeat(np.arange(len(windows)), sizes)
    pred = z.argmax(axis=1)
    if callable(method):
        found = np.array([method(w) for w in windows])[number]
        below = z.astype(np.float64) - z.max(axis=1, keepdims=True)
        top = 1 / np.exp(below / found[:, None]).sum(axis=1)
    else:
        reads = "window" in method.reads
        bound = method.bind(Rows(z, window=number if reads else None))
        if method.preserves_accuracy:
            top = bound.confidences()
        else:  # what it predicts itself
            proba = bound.proba()
            pred, top = proba.argmax(axis=1), proba.max(axis=1)
    cuts = np.cumsum(sizes)[:-1]
    top = np.minimum(np.asarray(top, np.float64), 1.0)
    return np.split(top, cuts), np.split(pred == y, cuts)


def oracle(name: str, window: Window) -> float:
    """Return the temperature of somebody who has the labels of the window."""
    if name == "oracle accuracy":
        right = window.logits.argmax(axis=1) == window.y
        return matched_temperature(window.logits, float(right.mean()))
    return fit_temperature(window.logits, window.y).temperature


def excess(top: list[np.ndarray], right: list[np.ndarray]) -> float:
    """Return the ECE of some windows together, beyond what chance shows."""
    p, hit = np.concatenate(top), np.concatenate(right)
    return float(ece(hit, p) - noise_floor(p))


def measure(method, windows: list[Window], found: Found, network: str, kind: str) -> None:
    """Measure a method on the windows of one type."""
    top, right = confidences(method, windows)
    groups: dict[tuple[str, int], list[int]] = {}
    for i, w in enumerate(windows):
        # Whole splits stand for themselves; smaller windows of a type are taken together.
        groups.setdefault((w.setting, w.severity if w.setting == "whole" else 0), []).append(i)
    for setting in dict.fromkeys(s for s, _ in groups):
        mine = [numbers for (s, _), numbers in groups.items() if s == setting]
        each = [excess([top[i] for i in some], [right[i] for i in some]) for some in mine]
        off = [
            abs(top[i].mean() - (windows[i].expected if keeps(method) else right[i].mean()))
            for some in mine for i in some
        ]  # fmt: skip
        found.excess[network, setting, kind] = float(np.mean(each))
        found.off[network, setting, kind] = float(np.mean(off))


def keeps(method) -> bool:
    return callable(method) or method.preserves_accuracy


def usable(name: str, windows: list[Window]) -> list[Window]:
    """Return the windows that a method is shown."""
    if name in SLOW:
        return [w for w in windows if len(w.y) >= 256 and w.setting != STREAM]
    return [w for w in windows if len(w.y) > 8 or name in TINY]


def run(part: str, chosen: dict[str, Suite], names: list[str], quick: bool) -> dict[str, Found]:
    """Return what each method was measured at."""
    results = {method: Found() for method in names}
    for network, suite in chosen.items():
        start = time.perf_counter()
        with suite.opened():
            run_network(part, network, suite, results, quick)
        print(f"{part}, {network}: {time.perf_counter() - start:.0f} s", flush=True)
    return results


def methods_of(names: list[str]) -> list[Method]:
    """Return the methods of these names; the oracles are none."""
    plain = [name for name in names if name not in (*TIERS[ORACLE], *TOLD)]
    told = [
        Method(name, ContextScaling(class_mix="clean"), rows=rows)
        for name, rows in TOLD.items()
        if name in names
    ]
    return [*choose_methods(plain), *told]


def run_network(part: str, network: str, suite, results: dict[str, Found], quick: bool) -> None:
    shifted = {kind_of(s) for s in suite.tests("covariate")} - set(TUNED_ON)
    if part == "test":
        rounds = [(TUNED_ON, sorted(shifted))]
        splits, clean = suite.tests("covariate"), suite.tests("none")[0]
    else:
        rounds = [(tuple(t for t in TUNED_ON if t != left), [left]) for left in TUNED_ON]
        splits, clean = suite.tune("covariate"), suite.tune("none")[0]
    if quick:
        rounds = [(tuned, types[:2]) for tuned, types in rounds[:2]]
    kept: dict[str, object] = {name: partial(oracle, name) for name in TIERS[ORACLE]}
    shown = list(results)
    for tuned, types in rounds:
        tuning = read_tuning(suite, None, None, lambda s, tuned=tuned: s.corruption in tuned)
        for method in methods_of(shown):
            if method.name in kept and not method.sees("shifted"):
                continue  # the same clean rows in every round
            fitted = fit_method(method, tuning)
            kept[method.name] = fitted.calibrator
            told = ", that classes keep their shares" if method.name in TOLD else ""
            results[method.name].knew = fitted.knew.words() + told
        for kind in types:
            windows = windows_of([s for s in splits if kind_of(s) == kind], clean)
            for name in shown:
                some = usable(name, windows)
                if some:  # splits may be smaller than what a method wants
                    measure(kept[name], some, results[name], network, kind)
    mixed = stream_of([s for s in splits if kind_of(s) in types], clean)
    for name in shown:
        if name not in SLOW:
            results[name].stream[network] = confidences(kept[name], mixed)
        if part == "test":
            whole = Window("clean", 0, clean.logits, clean.y, 0.0, [])
            top, right = confidences(kept[name], [whole])
            results[name].clean[network] = float(ece(right[0], top[0]))


def drawn_streams(stream: dict[str, tuple[list[np.ndarray], list[np.ndarray]]]) -> list[float]:
    """Return the mean excess ECE over networks when the windows of a stream are drawn anew."""
    rng = np.random.default_rng(0)
    means = []
    for _ in range(STREAM_REPLICATES):
        draw = rng.integers(0, STREAM_WINDOWS, STREAM_WINDOWS)
        means.append(
            np.mean(
                [excess([t[i] for i in draw], [r[i] for i in draw]) for t, r in stream.values()]
            )
        )
    return means


def lines(
    part: str, results: dict[str, Found], names: list[str], together: str
) -> list[dict[str, str]]:
    """Return the lines of the csv: means over networks with intervals, and each network's."""
    company = (
        __version__, commit(),
        f"numpy {np.__version__}, scipy {scipy.__version__}, python {platform.python_version()}",
    )  # fmt: skip
    out: list[dict[str, str]] = []

    def add(network, setting, method, metric, value, low=None, high=None) -> None:
        numbers = ["" if x is None else f"{x:.5f}" for x in (value, low, high)]
        row = (part, network, setting, TIER[method], method, results[method].knew, metric,
               *numbers, *company)  # fmt: skip
        out.append(dict(zip(FIELDS, map(str, row), strict=True)))

    energy = results["energy"].excess
    for method, found in results.items():
        for setting in SETTINGS:
            types = sorted({t for _, s, t in found.excess if s == setting})
            if not types:
                continue
            # Types by networks: a draw of types takes all networks along.
            mine, off, usual = (
                np.array([[table[n, setting, t] for n in names] for t in types])
                for table in (found.excess, found.off, energy)
            )
            rng = np.random.default_rng(0)
            draws = rng.integers(0, len(types), (REPLICATES, len(types)))
            for metric, value in (
                ("excess_ece", lambda i, m=mine: m[i].mean()),
                ("accuracy_off", lambda i, m=off: m[i].mean()),
                ("ratio", lambda i, m=mine, u=usual: m[i].mean() / u[i].mean()),
                ("behind_energy", lambda i, m=mine, u=usual: m[i].mean() - u[i].mean()),
            ):
                drawn = [value(i) for i in draws]
                low, high = np.quantile(drawn, (0.025, 0.975))
                add(together, setting, method, metric, value(np.arange(len(types))), low, high)
            for j, network in enumerate(names):
                add(network, setting, method, "excess_ece", mine[:, j].mean())
        if found.stream:
            each = {network: excess(*seen) for network, seen in found.stream.items()}
            low, high = np.quantile(drawn_streams(found.stream), (0.025, 0.975))
            mean = np.mean(list(each.values()))
            add(together, STREAM, method, "excess_ece", mean, low, high)
            for network, value in each.items():
                add(network, STREAM, method, "excess_ece", value)
        if found.clean:
            add(together, "clean", method, "ece", np.mean(list(found.clean.values())))
    return out


def main() -> None:
    """Run the parts that were asked for and write the csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=("tuning", "test"), default=["tuning"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--suites", nargs="+", type=Path, help="instead of the shipped ones")
    parser.add_argument("--methods", help="some of them, with commas; energy and oracles always")
    parser.add_argument("-o", "--output", type=Path, default=CSV, help="another csv")
    arguments = parser.parse_args()
    if arguments.suites:
        chosen = {path.name.removesuffix(".npz"): Suite.open(path) for path in arguments.suites}
    else:
        chosen = {name: suites.load(name) for name in suites.names()}
        # Some shipped suites have shifts of other kinds, or are samples of few rows.
        chosen = {
            name: suite
            for name, suite in chosen.items()
            if set(TUNED_ON)
            <= {s.corruption for s in suite.tune("covariate") if s.rows >= LEAST_ROWS}
        }
    if arguments.quick:
        chosen = dict(list(chosen.items())[:1])
    wanted = arguments.methods.split(",") if arguments.methods else list(TIER)
    wanted = [name for name in TIER if name in (*wanted, "energy", *TIERS[ORACLE])]
    new = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for part in arguments.parts:
            # Networks of as many classes are taken together.
            for k in dict.fromkeys(suite.n_classes for suite in chosen.values()):
                mine = {name: suite for name, suite in chosen.items() if suite.n_classes == k}
                names = [n for n in wanted if k <= MANY or n not in (*SLOW, *SLOW_OF_MANY)]
                if not any(suite.tune("covariate") for suite in mine.values()):
                    names = [n for n in names if TIER[n] not in (ENVIRONMENTS, BOTH)]
                found = run(part, mine, names, arguments.quick)
                together = ALL if k == 10 else f"{k} classes"
                new += lines(part, found, list(mine), together)
    if arguments.quick:
        for row in new:
            if row["network"] == ALL and row["metric"] in ("excess_ece", "accuracy_off"):
                print(*(row[k] for k in ("setting", "method", "metric", "value")), sep="  ")
        return
    key, path = itemgetter("part", "network", "method"), arguments.output
    replaced = {key(row) for row in new}
    old = []
    if path.exists():
        with path.open(newline="") as file:
            old = [row for row in csv.DictReader(file) if key(row) not in replaced]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(old + new, key=lambda row: row["part"], reverse=True))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
