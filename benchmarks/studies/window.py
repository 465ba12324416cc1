"""Compare methods that read an unlabelled window, on corruptions and on natural shift.

    python benchmarks/studies/window.py             resumable; adds to window.csv
    python benchmarks/studies/window.py --only cifar10-resnet20
    python benchmarks/studies/window.py --summary   print the tables of the csv

Suites: domains are the four validation corruptions, conditions the other fifteen at severities 1, 3
and 5. Natural shift: PACS (styles), BANKING77 (typing errors) and tables by time and by place; each
group is left out once (window_data.py). A method sees the window it predicts. Excess ECE is that of
15 bins minus its expectation if the confidence were right. NLL is relative to temperature scaling
of all domains together.
"""

import argparse
import csv
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import rivals
from rivals.scores import MDE, MaNo, NuclearNorm
from window_data import Fold, Samples, suite_folds, table_beds

from wildcal import ConfidenceMatching, __version__, get_calibrator, suites
from wildcal.core.exceptions import InputError

CSV = HERE / "window.csv"
REFERENCE = "ts-all"
USES_DOMAINS = ("ts-all", "energy-all", "window", "window+vector", "nearest", "md-ts",
                "match+nuclear", "match+mano", "match+mde")  # fmt: skip
"""The others are fitted on the source."""
METHODS: dict[str, Callable[[], Any]] = {
    "ts": lambda: get_calibrator("ts"),
    "ts-all": lambda: get_calibrator("ts"),
    "energy": lambda: get_calibrator("energy"),
    "energy-all": lambda: get_calibrator("energy"),
    "vector": lambda: get_calibrator("vector"),
    "window": lambda: get_calibrator("window"),
    "window+vector": lambda: get_calibrator("window", base=get_calibrator("vector")),
    "window, source only": lambda: get_calibrator("window"),
    "match+atc-ne": lambda: get_calibrator("match+atc-ne"),
    "match+cot": lambda: get_calibrator("match+cot"),
    "label-shift": lambda: get_calibrator("label-shift"),
    **{name: lambda n=name: get_calibrator(n) for name in rivals.NAMES},
    **{f"match+{kind.name}": lambda k=kind: ConfidenceMatching(estimator=k())
       for kind in (NuclearNorm, MaNo, MDE)},
}  # fmt: skip
SIZES = {"512": (512, 2), "128": (128, 4), "32": (32, 8), "1": (1, 128)}
"""Windows of a condition: size and number."""
N_DIRICHLET, N_STREAM, MIXED = 2, 24, 256
# Half a minute for a window of the stream: whole windows only.
SLOW = ("cpcs", "transcal")
FIELDS = ("part", "bed", "regime", "method", "conditions", "samples", "excess_ece",
          "excess_ece_se", "nll", "nll_change", "nll_change_se", "worse", "worst", "seconds",
          "wildcal", "commit", "versions")  # fmt: skip


def regimes(fold: Fold, rng: np.random.Generator) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield regime, condition and windows; a window is a pair of logits and labels."""
    test, n = fold.test, len(fold.test.y)
    yield "source", "source", [_take(test, np.arange(min(n, 5000)))]
    yield "source, 128", "source", [_draw(test, 128, rng) for _ in range(16)] if n > 128 else []
    for c in fold.conditions:
        yield "whole", c.name, [_take(c, np.arange(len(c.y)))]
        if len(fold.conditions) == 1:
            yield "128", c.name, [_draw(c, 128, rng) for _ in range(4)]
            continue
        for name, (size, number) in SIZES.items():
            number = min(number, len(c.y) // size) if size > 1 else number
            yield name, c.name, [_draw(c, size, rng) for _ in range(number)]
        yield "dirichlet", c.name, [_dirichlet(c, rng) for _ in range(N_DIRICHLET)]
    if len(fold.conditions) > 3:
        for i in range(N_STREAM):
            some = rng.permutation(len(fold.conditions))[:4]
            parts = [_draw(fold.conditions[j], MIXED // 4, rng) for j in some]
            yield (
                "stream",
                f"stream {i}",
                [tuple(np.concatenate(x) for x in zip(*parts, strict=True))],
            )


def _take(samples: Samples, i: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return samples.logits[i], samples.y[i]


def _draw(samples: Samples, size: int, rng: np.random.Generator) -> Any:
    return _take(samples, rng.permutation(len(samples.y))[:size])


def _dirichlet(samples: Samples, rng: np.random.Generator) -> Any:
    classes = np.unique(samples.y)
    wanted = rng.multinomial(MIXED, rng.dirichlet(np.full(len(classes), 0.3)))
    drawn = [
        rng.choice(np.flatnonzero(samples.y == k), c) for k, c in zip(classes, wanted, strict=True)
    ]
    return _take(samples, np.concatenate(drawn))


def excess_ece(confidence: np.ndarray, correct: np.ndarray, rng: np.random.Generator) -> float:
    """Return the ECE of 15 bins minus its mean over 20 draws of calibrated labels."""
    bins = np.minimum((confidence * 15).astype(int), 14)

    def ece(hit: np.ndarray) -> float:
        return float(np.abs(np.bincount(bins, confidence - hit, 15)).sum()) / len(bins)

    floor = np.mean([ece(rng.random(len(bins)) < confidence) for _ in range(20)])
    return ece(correct) - float(floor)


def fit(name: str, fold: Fold) -> Any:
    """Return a fitted method, None if it cannot be fitted to these samples."""
    parts = [fold.source, *(fold.domains if name in USES_DOMAINS else [])]
    X, y = (np.concatenate([getattr(p, key) for p in parts]) for key in ("logits", "y"))
    domain = np.concatenate([np.full(len(p.y), i) for i, p in enumerate(parts)])
    more = {"domain": domain} if name in USES_DOMAINS and not name.endswith("-all") else {}
    if name.startswith("energy") and not fold.raw:
        return None
    return METHODS[name]().fit(X.astype(np.float64), y, **more)


def measure(folds: list[Fold], methods: list[str]) -> list[dict[str, Any]]:
    """Return a row for each regime and method."""
    found: dict[tuple[str, str], list[tuple[str, int, float, float]]] = {}
    seconds = dict.fromkeys(methods, 0.0)
    cache: dict[str, Any] = {}  # folds of a table have one source
    for i, fold in enumerate(folds):
        for method in methods:
            start = time.perf_counter()
            try:
                fitted = cache[method] if method in cache else fit(method, fold)
            except (InputError, np.linalg.LinAlgError) as error:
                print(f"  {method}: {error}", flush=True)
                fitted = None
            if method not in USES_DOMAINS:
                cache[method] = fitted
            if fitted is None:
                continue
            for regime, condition, windows in regimes(fold, np.random.default_rng(i)):
                if not windows or (method in SLOW and regime not in ("source", "whole")):
                    continue
                proba = [np.asarray(fitted.predict_proba(z.astype(np.float64))) for z, _ in windows]
                p, y = np.concatenate(proba), np.concatenate([y for _, y in windows])
                rng = np.random.default_rng(len(y))
                ece = excess_ece(p.max(axis=1), p.argmax(axis=1) == y, rng)
                nll = float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean())
                found.setdefault((regime, method), []).append(
                    (f"{i} {condition}", len(y), ece, nll)
                )
            seconds[method] += time.perf_counter() - start
    return [_row(regime, method, cells, found[regime, REFERENCE], seconds[method])
            for (regime, method), cells in found.items()]  # fmt: skip


def _row(regime: str, method: str, cells: list[Any], reference: list[Any], seconds: float) -> Any:
    base = {name: nll for name, _, _, nll in reference}
    ece = np.array([c[2] for c in cells])
    change = np.array([c[3] / max(base[c[0]], 1e-6) - 1 for c in cells])
    # Severities of a corruption are one cluster.
    clusters = [c[0].rpartition("-")[0] or c[0] for c in cells]
    return {
        "regime": regime, "method": method, "conditions": len(cells),
        "samples": sum(c[1] for c in cells),
        "excess_ece": f"{ece.mean():.5f}", "excess_ece_se": f"{_error(ece, clusters):.5f}",
        "nll": f"{np.mean([c[3] for c in cells]):.5f}", "nll_change": f"{change.mean():.5f}",
        "nll_change_se": f"{_error(change, clusters):.5f}",
        "worse": f"{(change > 0.01).mean():.5f}", "worst": f"{change.max():.5f}",
        "seconds": f"{seconds:.1f}",
    }  # fmt: skip


def _error(values: np.ndarray, clusters: list[str]) -> float:
    """Return the standard error of a mean whose values are drawn by clusters."""
    means = [values[[c == name for c in clusters]].mean() for name in dict.fromkeys(clusters)]
    return float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else float("nan")


def beds() -> Iterator[tuple[str, str, Any]]:
    """Yield part, name and a function that returns the folds."""
    for name in suites.list():
        part = "natural" if name.startswith(("pacs", "banking")) else "suites"
        yield part, name, lambda n=name: suite_folds(n)
    for name, make in table_beds():
        yield "natural", name, make


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows that are there."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def summary(rows: list[dict[str, str]]) -> None:
    """Print the mean excess ECE by regime, and the share of cells worse than the reference."""
    for part in ("suites", "natural"):
        some = [r for r in rows if r["part"] == part]
        names = list(dict.fromkeys(r["regime"] for r in some))
        print(
            f"\n{part}: excess ECE in % by regime, mean over beds; worse: NLL 1 % above {REFERENCE}"
        )
        print(
            f"{'method':22}",
            *(f"{n:>12}" for n in names),
            f"{'worse':>8} {'worst':>8} {'change':>8}",
        )
        for method in METHODS:
            own = [r for r in some if r["method"] == method]
            if not own:
                continue
            ece = [np.mean([float(r["excess_ece"]) for r in own if r["regime"] == n] or [np.nan])
                   for n in names]  # fmt: skip
            whole = [r for r in own if r["regime"] == "whole"]
            n = np.array([int(r["conditions"]) for r in whole])
            worse, change = (
                np.array([float(r[k]) for r in whole]) for k in ("worse", "nll_change")
            )
            worst = max(float(r["worst"]) for r in whole)
            shares = (worse @ n / n.sum(), worst, change @ n / n.sum())
            cells = [*(f"{100 * e:12.2f}" for e in ece), *(f"{100 * s:8.2f}" for s in shares)]
            print(f"{method:22}", *cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", help="beds whose names contain one of these")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--summary", action="store_true", help="print the tables of the csv")
    parser.add_argument("--output", type=Path, default=CSV)
    arguments = parser.parse_args()
    if arguments.summary:
        summary(read(arguments.output))
        return
    warnings.simplefilter("ignore")
    rivals.register_all()
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    commit = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    versions = f"numpy {np.__version__}, scipy {scipy.__version__}"
    common = {"wildcal": __version__, "commit": commit or "unknown"}
    common["versions"] = f"{versions}, python {platform.python_version()}"
    for part, bed, make in beds():
        if arguments.only and not any(word in bed for word in arguments.only):
            continue
        done = {r["method"] for r in read(arguments.output) if r["bed"] == bed}
        todo = [m for m in arguments.methods if m not in done]
        if not todo:
            continue
        start = time.perf_counter()
        try:
            folds = make()
        except AssertionError as error:
            print(f"{bed}: left out, {error}", flush=True)
            continue
        if not folds or not folds[0].domains:
            print(f"{bed}: left out, fewer than three groups", flush=True)
            continue
        rows = measure(folds, [REFERENCE, *(m for m in todo if m != REFERENCE)])
        new = not arguments.output.exists()
        with arguments.output.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerows({"part": part, "bed": bed, **row, **common} for row in rows
                             if row["method"] in todo)  # fmt: skip
        print(f"{bed}: {time.perf_counter() - start:.0f} s", flush=True)
    summary(read(arguments.output))


if __name__ == "__main__":
    main()
