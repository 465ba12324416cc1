"""The paper's protocol on one shipped suite, against scikit-learn and SciPy cell by cell.

    make bench                                    a few minutes
    python benchmarks/protocol.py --repeats 1     a quick look

Eight methods are fitted once on the clean tuning rows and measured by ECE on 96 cells (clean and
95 corrupted) of 2,000 rows. The plain path is what a careful researcher writes with scikit-learn
and SciPy: one method and one cell at a time, the whole matrix of probabilities, a loop over 15
bins. Our path is one call of `run_protocol`, which also compares the content hashes and computes
the noise floor of every cell. Both read the same file with one thread, and processor time is
counted, which other programs disturb less; the last row has the clock on the wall, with all our
threads. The two paths take turns, and ratios are taken within a turn: compare these, not the
seconds.
"""

import argparse
import csv
import os
import statistics
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported; our own threads are set below

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from scipy.stats import norm
from sklearn.isotonic import IsotonicRegression

from wildcal import suites
from wildcal.calibrators import PAPER_METHODS
from wildcal.core.parallel import thread_count, use_threads
from wildcal.evaluation.protocol import choose_methods, run_protocol
from wildcal.evaluation.protocol.tuning import paper_ood_rows
from wildcal.io.suite import Suite

STAGES = ("read", "fit", "score", "all")
HEADER = ("stage", "threads", "plain s", "ours s", "faster", "lowest", "highest")
DIFFERENCES = ("method", "largest difference", "average difference")

Apply = Callable[[np.ndarray], np.ndarray]
Clock = dict[str, float]
Eces = dict[tuple[str, str], float]


# The plain path: logits, labels and logits of OOD rows -> a function from logits to probabilities.


def fit_identity(z, y, ood) -> Apply:
    return lambda z: softmax(z, axis=1)


def best_temperature(z, y, loss) -> float:
    t = np.eye(z.shape[1])[y]

    def value(at):
        p = softmax(z / at, axis=1)
        return -np.mean(np.log(p[t == 1] + 1e-20)) if loss == "nll" else np.mean((p - t) ** 2)

    return minimize(value, 1.0, method="L-BFGS-B", bounds=[(0.05, 5.0)], tol=1e-12).x[0]


def fit_temperature(z, y, ood) -> Apply:
    temperature = best_temperature(z, y, "nll")
    return lambda z: softmax(z / temperature, axis=1)


def fit_ensemble(z, y, ood) -> Apply:
    n_classes = z.shape[1]
    temperature, t = best_temperature(z, y, "nll"), np.eye(n_classes)[y]
    p0, p1 = softmax(z / temperature, axis=1), softmax(z, axis=1)
    found = minimize(
        lambda w: np.mean((w[0] * p0 + w[1] * p1 + w[2] / n_classes - t) ** 2),
        (1.0, 0.0, 0.0),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        tol=1e-12,
    )
    w = found.x
    return lambda z: (
        w[0] * softmax(z / temperature, axis=1) + w[1] * softmax(z, axis=1) + w[2] / n_classes
    )


def normalized(p):
    return p / p.sum(axis=1, keepdims=True)


def fit_irm(z, y, ood) -> Apply:
    p = softmax(z, axis=1)
    curve = IsotonicRegression(out_of_bounds="clip")
    curve.fit(p.ravel(), np.eye(z.shape[1])[y].ravel())

    def apply(z):
        p = softmax(z, axis=1)
        return normalized(curve.predict(p.ravel()).reshape(p.shape) + 1e-9 * p)

    return apply


def fit_one_vs_all(z, y, ood, temperature=1.0) -> Apply:
    p = softmax(z / temperature, axis=1)
    curves = [
        IsotonicRegression(out_of_bounds="clip").fit(p[:, k], y == k) for k in range(z.shape[1])
    ]

    def apply(z):
        p = softmax(z / temperature, axis=1)
        columns = [curve.predict(p[:, k]) for k, curve in enumerate(curves)]
        return normalized(np.column_stack(columns) + 1e-9 * p)

    return apply


def fit_one_vs_all_scaled(z, y, ood) -> Apply:
    return fit_one_vs_all(z, y, ood, best_temperature(z, y, "mse"))


def fit_spline(z, y, ood) -> Apply:
    p = softmax(z, axis=1)
    order = np.argsort(p.max(axis=1))
    s, right = p.max(axis=1)[order], (p.argmax(axis=1) == y)[order]
    t = np.linspace(0, 1, len(s))
    basis = CubicSpline(np.linspace(0, 1, 6), np.eye(6), bc_type="natural")
    knots = np.linalg.lstsq(basis(t), np.cumsum(right - s) / len(s), rcond=None)[0]
    r = s + basis(t, 1) @ knots

    def apply(z):
        p = softmax(z, axis=1)
        rows, top = np.arange(len(p)), p.argmax(axis=1)
        q = np.clip(np.interp(p[rows, top], s, r), 0, 1)
        p[rows, top] = 0
        p *= ((1 - q) / np.maximum(p.sum(axis=1), 1e-300))[:, None]
        p[rows, top] = q
        return p

    return apply


def fit_energy(z, y, ood) -> Apply:
    temperature = best_temperature(z, y, "nll")
    right = np.r_[z.argmax(axis=1) == y, np.zeros(len(ood), bool)]
    t = np.r_[np.eye(z.shape[1])[y], np.zeros(ood.shape)]
    z = np.r_[z, ood]
    energy = -logsumexp(z, axis=1)
    correct, incorrect = norm.fit(energy[right]), norm.fit(energy[~right])
    d1, d2 = norm.pdf(energy, *correct), norm.pdf(energy, *incorrect)

    def loss(theta):
        h = temperature - theta[0] * d1 + theta[1] * d2
        return np.mean((softmax(z / h[:, None], axis=1) - t) ** 2)

    theta = minimize(loss, (0.0, 0.0), method="L-BFGS-B", bounds=[(0, 10)] * 2, tol=1e-12).x

    def apply(z):
        energy = -logsumexp(z, axis=1)
        h = temperature - theta[0] * norm.pdf(energy, *correct)
        h += theta[1] * norm.pdf(energy, *incorrect)
        return softmax(z / h[:, None], axis=1)

    return apply


def plain_ece(z, y, p, n_bins=15) -> float:
    pred = z.argmax(axis=1)
    confidence, correct = p[np.arange(len(p)), pred], pred == y
    edges = np.linspace(0, 1, n_bins + 1)
    edges[-1] = np.inf  # rounding may leave a probability above 1
    total = 0.0
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            gap = confidence[inside].mean() - correct[inside].mean()
            total += abs(gap) * inside.mean()
    return total


FITS = {
    "identity": fit_identity,
    "ts": fit_temperature,
    "ets": fit_ensemble,
    "irm": fit_irm,
    "irova": fit_one_vs_all,
    "irovats": fit_one_vs_all_scaled,
    "spline": fit_spline,
    "energy": fit_energy,
}


def run_plain(path: Path, cells: list[str], ood: str) -> tuple[Eces, Clock]:
    clock, start, wall = {}, time.process_time(), time.perf_counter()
    with np.load(path) as file:
        # In float64: the finite differences of the optimizers need it.
        def read(split):
            return file[f"{split}.logits"].astype(np.float64), file[f"{split}.labels"].astype(int)

        z, y = read("validation")
        ood_logits = read(ood)[0][: paper_ood_rows(z.shape[1])]
        tests = {cell: read(cell) for cell in cells}
    clock["read"] = time.process_time() - start
    start = time.process_time()
    fitted = {method: FITS[method](z, y, ood_logits) for method in PAPER_METHODS}
    clock["fit"] = time.process_time() - start
    start = time.process_time()
    eces = {
        (method, cell): plain_ece(*tests[cell], apply(tests[cell][0]))
        for method, apply in fitted.items()
        for cell in cells
    }
    clock["score"] = time.process_time() - start
    clock["all"] = sum(clock.values())
    return eces, clock | {"wall": time.perf_counter() - wall}


def run_ours(path: Path) -> tuple[Eces, Clock]:
    clock, marks = dict.fromkeys(STAGES, 0.0), [("read", time.process_time())]
    wall = time.perf_counter()

    def mark(doing: str, rows: int) -> None:
        kind = doing.split(": ")[1].split()[0]
        stage = {"fitting": "fit", "reading": "read"}.get(kind, "score")
        marks.append((stage, time.process_time()))

    results = run_protocol(
        {"s": Suite.open(path)}, choose_methods(), metrics=("ece",), progress=mark
    )
    marks.append(("", time.process_time()))
    for (stage, start), (_, stop) in pairwise(marks):
        clock[stage] += stop - start
    clock["all"] = sum(clock.values())
    clock["wall"] = time.perf_counter() - wall
    return {(r.method, r.split): r.value for r in results.records}, clock


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="cifar10-resnet20", choices=suites.names())
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("-o", "--output", type=Path, help="write stages and differences as csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    suite = suites.load(options.suite)
    cells = [s.name for s in (*suite.tests("none"), *suite.tests("covariate"))]
    rows = {s.rows for s in suite.tests("covariate")}
    ood = suite.tune("semantic")[0].name
    clocks: list[tuple[Clock, Clock]] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for _ in progress.track(range(options.repeats), description=options.suite):
            with use_threads(1):
                ours, clock = run_ours(suite.path)
            clock["wall"] = run_ours(suite.path)[1]["wall"]
            plain, clock_plain = run_plain(suite.path, cells, ood)
            clocks.append((clock_plain, clock))

    stages = []
    for stage in (*STAGES, "wall"):
        theirs, mine = ([c[i][stage] for c in clocks] for i in range(2))
        ratios = [a / b for a, b in zip(theirs, mine, strict=True)]
        stages.append((
            "all, wall clock" if stage == "wall" else stage,
            thread_count() if stage == "wall" else 1,
            *map(statistics.median, (theirs, mine, ratios)), min(ratios), max(ratios),
        ))  # fmt: skip
    gaps = []
    for method in PAPER_METHODS:
        gap = np.array([plain[method, cell] - ours[method, cell] for cell in cells])
        gaps.append((method, float(np.abs(gap).max()), float(abs(gap.mean()))))

    console = Console(width=None if os.isatty(1) else 120)
    sizes = ", ".join(f"{n:,}" for n in sorted(rows))
    print(f"{options.suite}: {len(PAPER_METHODS)} methods x {len(cells)} cells x {sizes} rows")
    print(f"{options.repeats} turns, 1 thread; on the wall clock ours had {thread_count()} threads")
    table = Table()
    for head in HEADER:
        table.add_column(head, justify="left" if head == "stage" else "right")
    forms = ("", "", ".3f", ".3f", ".1f", ".1f", ".1f")
    for row in stages:
        table.add_row(*(f"{cell:{form}}" for cell, form in zip(row, forms, strict=True)))
    console.print(table)
    table = Table(*DIFFERENCES, title="ECE of the plain path minus ours, over the cells")
    for method, largest, mean in gaps:
        table.add_row(method, f"{largest:.1e}", f"{mean:.1e}")
    console.print(table)
    if options.output:
        with options.output.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER)
            writer.writerows(stages)
        with options.output.with_name(f"{options.output.stem}-agree.csv").open(
            "w", newline=""
        ) as file:
            writer = csv.writer(file)
            writer.writerow(DIFFERENCES)
            writer.writerows(gaps)


if __name__ == "__main__":
    main()
