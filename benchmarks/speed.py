"""How fast, how much memory, how far from the limit of the machine: one table, ratios in one run.

    make bench                                   all sizes, a few minutes
    python benchmarks/speed.py --classes 10 100  some of them

There are 50,000 float32 rows of logits (and 2,500 OOD rows more for the energy fit). Times are
the least processor time of a few runs in this process, with all threads that of the clock on the
wall; on a busy machine compare the ratios, not the seconds.
"limit" is the time NumPy needs for one np.exp (fits, apply) or one np.copyto (metrics from
probabilities) of the same 50,000 rows in the same run, divided by our time: 1.0 would mean that we
cost as much as that single pass. (Energy scaling needs two exponentials of every logit.) Extra
memory is the peak above the input, counted by tracemalloc in a run of its own.
"""

import argparse
import csv
import os
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported; our own threads are set below

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

from wildcal import CALIBRATORS, EnergyScaling, TemperatureScaling, metrics
from wildcal.core.parallel import thread_count, use_threads
from wildcal.core.softmax import energy_and_pred

ROWS = 50_000
OOD_ROWS = 2_500


def make_rows(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident float32 logits with labels, then some OOD rows (-1)."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, ROWS)
    z = rng.standard_normal((ROWS + OOD_ROWS, n_classes), dtype=np.float32)
    z[np.arange(ROWS), y] += rng.normal(np.sqrt(2 * np.log(n_classes)) + 1, 1.6, ROWS).astype(
        np.float32
    )
    z *= 3.0
    z[ROWS:] *= 0.8
    return z, np.r_[y, np.full(OOD_ROWS, -1)]


class Scores(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier whose decision function is the matrix it is given."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, x):
        return x

    def predict(self, x):
        return self.classes_[x.argmax(axis=1)]


def sklearn_temperature(z, y):
    frozen = FrozenEstimator(Scores().fit(z, y))
    return CalibratedClassifierCV(frozen, method="temperature", ensemble=False).fit(z, y)


def scipy_energy(z, y):
    """Fit energy scaling the straightforward way: whole matrices, finite differences, L-BFGS-B."""
    known = y >= 0
    temperature = TemperatureScaling().fit(z[known], y[known]).temperature_
    energy, pred = energy_and_pred(z)

    def density(rows):
        mean, std = energy[rows].mean(), energy[rows].std()
        return np.exp(-((energy - mean) ** 2) / (2 * std**2)) / (std * np.sqrt(2 * np.pi))

    right, wrong = density(pred == y), density(pred != y)

    def loss(theta):
        h = temperature - theta[0] * right + theta[1] * wrong
        p = z / h[:, None].astype(z.dtype)
        p -= p.max(axis=1, keepdims=True)
        p = np.exp(p)
        p /= p.sum(axis=1, keepdims=True)
        p[np.flatnonzero(known), y[known]] -= 1
        return np.square(p).sum(dtype=np.float64) / len(y)

    # A float32 loss needs steps that it can feel.
    return minimize(
        loss, [0.0, 0.0], method="L-BFGS-B", bounds=[(0, 10)] * 2, options={"eps": 1e-2}
    ).x


def kde_loop(correct, confidence):
    """Evaluate both densities of KDE-ECE point by point of the grid."""
    h = confidence[correct].std() * (2 * len(confidence)) ** -0.2
    mirrored = np.r_[confidence, np.where(confidence < 0.5, -confidence, 2 - confidence)]
    right = np.r_[correct, correct]
    grid = np.linspace(-0.6, 1.6, 2**14)
    both, hit = np.zeros(len(grid)), np.zeros(len(grid))
    for i, x in enumerate(grid):
        k = np.clip(1 - ((mirrored - x) / (3 * h)) ** 2, 0, None) ** 3
        both[i], hit[i] = k.sum(), k[right].sum()
    inside = (grid > 0) & (grid < 1) & (both > 0)
    gap = np.abs(grid - hit / np.where(both > 0, both, 1))[inside] * both[inside]
    return np.trapezoid(gap, grid[inside]) / np.trapezoid(both[inside], grid[inside])


def seconds(
    call: Callable[[], object], repeats: int, clock: Callable[[], float] = time.process_time
) -> float:
    times = []
    for _ in range(repeats):
        start = clock()
        call()
        times.append(clock() - start)
        if sum(times) > 20:
            break
    return min(times)


def extra_megabytes(call: Callable[[], object]) -> float:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - before) / 1e6


def measure_limits(z: np.ndarray, repeats: int) -> dict[str, float]:
    """Return the seconds one np.exp and one np.copyto of the matrix take."""
    out = np.empty_like(z)
    return {
        "exp": seconds(lambda: np.exp(z, out=out), repeats),
        "copy": seconds(lambda: np.copyto(out, z), repeats),
    }


Case = tuple[str, Callable[[], object], str, str, Callable[[], object] | None]


def cases(z: np.ndarray, y: np.ndarray) -> list[Case]:
    """Return (job, ours, limit, peer's name, peer) for one matrix."""
    z_id, y_id = z[:ROWS], y[:ROWS]
    ts, energy = TemperatureScaling().fit(z_id, y_id), EnergyScaling().fit(z, y)
    proba = ts.predict_proba(z_id)
    pred = proba.argmax(axis=1)
    correct, confidence = pred == y_id, proba.max(axis=1).astype(np.float64)
    sk_ts = sklearn_temperature(z_id, y_id)

    def pooled():
        hit = np.zeros(proba.shape, np.float32)
        hit[np.arange(len(y_id)), y_id] = 1
        return IsotonicRegression(out_of_bounds="clip").fit(proba.ravel(), hit.ravel())

    def one_vs_all():
        for k in range(proba.shape[1]):
            IsotonicRegression(out_of_bounds="clip").fit(proba[:, k], y_id == k)

    result: list[Case] = [
        ("TS fit", lambda: TemperatureScaling().fit(z_id, y_id), "exp", "scikit-learn",
         lambda: sklearn_temperature(z_id, y_id)),
        ("TS apply", lambda: ts.predict_proba(z_id), "exp", "scikit-learn",
         lambda: sk_ts.predict_proba(z_id)),
        ("TS confidence", lambda: ts.confidence(z_id), "exp", "", None),
        ("energy fit", lambda: EnergyScaling().fit(z, y), "exp", "SciPy, differences",
         lambda: scipy_energy(z, y)),
        ("energy apply", lambda: energy.predict_proba(z_id), "exp", "", None),
        ("ECE", lambda: metrics.ece(y_id, proba), "copy", "", None),
        ("SCE", lambda: metrics.sce(y_id, proba), "copy", "", None),
        ("KDE-ECE", lambda: metrics.kde_ece(correct, confidence), "", "loop over the grid",
         (lambda: kde_loop(correct, confidence)) if z.shape[1] == 1000 else None),
    ]  # fmt: skip
    for name, peer in (("irm", pooled), ("irova", one_vs_all), ("ets", None), ("spline", None)):
        if name in CALIBRATORS:
            fitted = CALIBRATORS[name]().fit(z_id, y_id)
            result.append(
                (f"{name} fit", lambda name=name: CALIBRATORS[name]().fit(z_id, y_id), "exp",
                 "scikit-learn isotonic" if peer else "", peer)
            )  # fmt: skip
            result.append(
                (f"{name} apply", lambda fitted=fitted: fitted.predict_proba(z_id), "exp", "", None)
            )
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], help="jobs whose name contains a word")
    parser.add_argument("-o", "--output", type=Path, help="also write the rows as csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    header = ("job", "K", "1 thread s", "all threads s", "extra MB", "limit", "peer", "peer s",
              "peer MB", "faster", "memory")  # fmt: skip
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for n_classes in options.classes:
            z, y = make_rows(n_classes)
            limits = measure_limits(z[:ROWS], options.repeats)
            task = progress.add_task(f"K = {n_classes}", total=None)
            todo = [
                c for c in cases(z, y) if not options.only or any(w in c[0] for w in options.only)
            ]
            progress.update(task, total=len(todo))
            for job, ours, limit, peer_name, peer in todo:
                progress.update(task, description=f"K = {n_classes}: {job}")
                with use_threads(1):
                    one = seconds(ours, options.repeats)
                    memory = extra_megabytes(ours)
                every = seconds(ours, options.repeats, time.perf_counter)
                theirs = seconds(peer, 1) if peer else None
                theirs_memory = extra_megabytes(peer) if peer and "loop" not in peer_name else None
                rows.append((
                    job, n_classes, one, every, memory, limits[limit] / one if limit else None,
                    peer_name if peer else "", theirs, theirs_memory,
                    theirs / one if theirs else None,
                    theirs_memory / memory if theirs_memory and memory > 0.1 else None,
                ))  # fmt: skip
                progress.advance(task)
            rates = {name: ROWS * n_classes / t / 1e9 for name, t in limits.items()}
            print(f"K = {n_classes}: np.exp {rates['exp']:.2f}, np.copyto {rates['copy']:.2f}"
                  " billion float32 per second", file=sys.stderr)  # fmt: skip

    table = Table(title=f"{ROWS:,} rows, float32, {thread_count()} threads available")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i in (0, 6) else "right", no_wrap=True)
    formats = ("", "", ".4f", ".4f", ".1f", ".2f", "", ".3f", ".0f", ".1f", ".1f")
    suffixes = ("",) * 9 + ("x", "x")
    for row in rows:
        table.add_row(*(
            "" if cell is None else f"{cell:{form}}{suffix}"
            for cell, form, suffix in zip(row, formats, suffixes, strict=True)
        ))  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    if options.output:
        with options.output.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)


if __name__ == "__main__":
    main()
