"""All peers in one run: the same inputs, turn by turn, one thread, correctness before speed.

    make bench                                            all sizes
    python benchmarks/peers.py --sizes 50000x10           one of them
    python benchmarks/peers.py --jobs ECE -o peers.csv    one job, in the place it has in the file

A job is done by us and by each peer that knows it. First the answers are compared: a peer that is
wrong is named and not counted. Then all take turns, and the least processor time of each counts;
who has used up its seconds drops out, so a slow one may have a single turn. A package that is not
installed, that fails, or that takes longer than `--longest` is a line of the table and not a
failure. Limits are what NumPy needs to
copy the matrix and to take the float32 exponential of it, in the same turns. The csv is written
after each size.
"""

import argparse
import csv
import os
import signal
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported
os.environ["WILDCAL_THREADS"] = "1"

import numpy as np

from wildcal import TemperatureScaling, get_calibrator, metrics

HEADER = ("job", "rows", "classes", "who", "ms", "faster", "MB", "limit", "share", "note")
SIZES = ["50000x10", "50000x100", "50000x1000", "2000000x10", "2000x50000"]
Call = Callable[[], Any]
Peers = dict[str, Callable[[], Call]]
"""Who, and what prepares the call: there a missing package shows."""


def make_rows(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident float32 logits and labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    z = rng.standard_normal((n, k), dtype=np.float32)
    z[np.arange(n), y] += rng.normal(np.sqrt(2 * np.log(k)) + 1, 1.6, n).astype(np.float32)
    z *= 2.0
    return z, y


def plain_softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def plain_check(p: np.ndarray) -> None:
    if p.min() < 0 or (np.abs(p.sum(axis=1) - 1) > 1e-3).any():
        raise ValueError("no probabilities")


def plain_nll(y: np.ndarray, p: np.ndarray) -> float:
    plain_check(p)
    return float(-np.log(np.clip(p[np.arange(len(y)), y], 1e-34, 1)).mean())


def plain_brier(y: np.ndarray, p: np.ndarray) -> float:
    plain_check(p)
    return float(((p * p).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1).mean())


class TooSlow(Exception):
    """A peer took more processor time than it may."""


def at_most(seconds: float, call: Call) -> Any:
    """Return an answer, or raise where it takes more processor time."""
    start = time.process_time()

    # A timer of processor time would make the clock coarse, so it is looked at every second.
    def look(*_: Any) -> None:
        if time.process_time() - start > seconds:
            raise TooSlow(f"more than {seconds:g} s")

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def often(call: Call) -> Call:
    """Return a call many times over: one alone is too short for a clock."""
    return lambda: [call() for _ in range(200)][-1]


def torch_of(z: np.ndarray) -> Any:
    import torch

    torch.set_num_threads(1)
    return torch.from_numpy(z)


def torch_apply(z: np.ndarray, t: float) -> Call:
    import torch

    x = torch_of(z)
    return lambda: torch.softmax(x / t, dim=1).numpy()


def sklearn_fit(z: np.ndarray, y: np.ndarray) -> Call:
    from sklearn.calibration import _TemperatureScaling

    return lambda: 1 / _TemperatureScaling().fit(z, y).beta_


def probmetrics_fit(z: np.ndarray, y: np.ndarray) -> Call:
    import torch
    from probmetrics.calibrators import get_calibrator
    from probmetrics.distributions import CategoricalLogits

    x, labels = CategoricalLogits(torch_of(z)), torch.from_numpy(y)

    def fit() -> float:
        made = get_calibrator("temp-scaling")
        made.fit_torch(x, labels)
        return float(1 / made.invtemp_) if hasattr(made, "invtemp_") else float("nan")

    return fit


def torchmetrics_ece(y: np.ndarray, p: np.ndarray) -> Call:
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error as error

    x, labels, k = torch_of(p), torch.from_numpy(y), p.shape[1]
    return lambda: float(error(x, labels, k, n_bins=15))


def netcal_ece(y: np.ndarray, p: np.ndarray) -> Call:
    from netcal.metrics import ECE

    return lambda: float(ECE(15).measure(p, y))


def cal_ece(y: np.ndarray, p: np.ndarray) -> Call:
    import calibration

    return lambda: float(calibration.get_ece(p, y, num_bins=15))


def torch_uncertainty_ece(y: np.ndarray, p: np.ndarray) -> Call:
    import torch
    from torch_uncertainty.metrics import CalibrationError

    x, labels, k = torch_of(p), torch.from_numpy(y), p.shape[1]

    def measure() -> float:
        made = CalibrationError(task="multiclass", num_classes=k, num_bins=15)
        made.update(x, labels)
        return float(made.compute())

    return measure


def relplot_smooth(y: np.ndarray, p: np.ndarray) -> Call:
    import relplot

    top, hit = p.max(axis=1), p.argmax(axis=1) == y
    return lambda: float(relplot.smECE(f=top, y=hit))


def isotonic_apply(curves: list[tuple[np.ndarray, np.ndarray]], z: np.ndarray) -> Call:
    """Return the published way with fitted curves: a search for every entry, class by class."""

    def apply() -> np.ndarray:
        p = plain_softmax(z)
        mapped = np.empty(p.shape)
        if len(curves) == 1:
            mapped[:] = np.interp(p, *curves[0])
        else:
            for k, curve in enumerate(curves):
                mapped[:, k] = np.interp(p[:, k], *curve)
        total = mapped.sum(axis=1, keepdims=True) + 1e-9
        return (mapped + 1e-9 * p) / total

    return apply


def table_jobs(z: np.ndarray, y: np.ndarray) -> list[tuple[str, str, float, Call, Peers]]:
    """Return the jobs of other methods, which are fitted on a part of the rows."""
    row, part = z[:1].copy(), slice(20_000)
    found: list[tuple[str, str, float, Call, Peers]] = []
    for name in ("ts", "energy", "irm", "irova"):
        method: Any = get_calibrator(name).fit(z[part], y[part])
        found.append(
            (f"one row of {name}, 200 times", "", np.inf,
             often(lambda m=method: m.predict_proba(row)),
             {"NumPy's softmax": lambda: often(lambda: plain_softmax(row))})
        )  # fmt: skip
        if name in ("ts", "energy"):
            continue
        tables = zip(*map(np.atleast_2d, (method.knots_, method.values_)), strict=True)
        curves = [(x[np.isfinite(x)], f[np.isfinite(x)]) for x, f in tables]
        found.append(
            (f"apply {name}", "exp", 1e-3, lambda m=method: m.predict_proba(z),
             {"np.interp": lambda c=curves: isotonic_apply(c, z)})
        )  # fmt: skip
    return found


def jobs(z: np.ndarray, y: np.ndarray) -> list[tuple[str, str, float, Call, Peers]]:
    """Return (job, limit, tolerance, ours, peers) for one matrix."""
    ts = TemperatureScaling().fit(z, y)
    t, p = ts.temperature_, ts.predict_proba(z)
    row = z[:1].copy()
    found: list[tuple[str, str, float, Call, Peers]] = [
        ("one row, 200 times", "", 1e-5, often(lambda: ts.predict_proba(row)), {
            "NumPy": lambda: often(lambda: plain_softmax(row / np.float32(t))),
            "torch": lambda: often(torch_apply(row, t)),
        }),
        ("apply TS", "exp", 1e-5, lambda: ts.predict_proba(z), {
            "NumPy": lambda: lambda: plain_softmax(z / np.float32(t)),
            "torch": lambda: torch_apply(z, t),
        }),
        ("fit TS", "exp", 2e-3, lambda: TemperatureScaling().fit(z, y).temperature_, {
            "scikit-learn": lambda: sklearn_fit(z, y),
            "probmetrics": lambda: probmetrics_fit(z, y),
        }),
        ("NLL", "copy", 1e-5, lambda: metrics.nll(y, p), {
            "NumPy": lambda: lambda: plain_nll(y, p),
        }),
        ("Brier", "copy", 1e-5, lambda: metrics.brier(y, p), {
            "NumPy": lambda: lambda: plain_brier(y, p),
        }),
        ("ECE", "copy", 1e-4, lambda: metrics.ece(y, p), {
            "torchmetrics": lambda: torchmetrics_ece(y, p),
            "netcal": lambda: netcal_ece(y, p),
            "uncertainty-calibration": lambda: cal_ece(y, p),
            "torch-uncertainty": lambda: torch_uncertainty_ece(y, p),
        }),
        ("smooth ECE against KDE-ECE", "", np.inf, lambda: metrics.kde_ece(y, p), {
            "relplot": lambda: relplot_smooth(y, p),
        }),
    ]  # fmt: skip
    if z.shape[1] <= 1_000:
        found += table_jobs(z, y)
    return found


def wrong(ours: Any, theirs: Any, tolerance: float) -> str:
    """Return what is wrong with an answer, nothing if it is right."""
    gap = float(np.max(np.abs(np.asarray(ours, float) - np.asarray(theirs, float))))
    return "" if gap <= tolerance else f"differs by {gap:.2g}"


def turns(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Return the least processor time of each call, all of them taking turns."""
    least, spent = dict.fromkeys(calls, np.inf), dict.fromkeys(calls, 0.0)
    for _ in range(200):
        for who in [who for who in calls if spent[who] < seconds]:
            start = time.process_time()
            calls[who]()
            used = time.process_time() - start
            least[who], spent[who] = min(least[who], used), spent[who] + used
    return least


def watched(call: Call) -> tuple[Any, float]:
    """Return an answer, and the megabytes that it took at most."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def measure(
    n: int, k: int, seconds: float, longest: float, only: list[str] | None
) -> list[tuple[Any, ...]]:
    """Return the rows of the table for one size."""
    z, y = make_rows(n, k)
    out = z.copy()  # memory that is there already
    limits: dict[str, Call] = {
        "copy": lambda: np.copyto(out, z),
        "exp": lambda: np.exp(z, out=out),
    }
    rows: list[tuple[Any, ...]] = []
    for job, limit, tolerance, ours, peers in jobs(z, y):
        if only is not None and job not in only:
            continue
        answer, peak = watched(ours)
        calls, notes, memory = {"wildcal": ours}, {}, {"wildcal": peak}
        for who, prepare in peers.items():
            try:
                call = prepare()
                theirs, memory[who] = at_most(longest, lambda call=call: watched(call))
                notes[who] = wrong(answer, theirs, tolerance)
            except Exception as error:  # whatever a peer does
                notes[who] = f"{type(error).__name__}: {error}".splitlines()[0][:60]
            if not notes[who]:
                calls[who] = call
        if limit:
            calls[limit] = limits[limit]
        least = turns(calls, seconds)
        bound = least.pop(limit, None)
        share = None if bound is None else bound / least["wildcal"]
        rows.append((job, n, k, "wildcal", 1e3 * least["wildcal"], 1.0, memory["wildcal"], limit,
                     share, ""))  # fmt: skip
        for who, note in notes.items():
            ms = 1e3 * least[who] if who in least else None
            rows.append((job, n, k, who, ms, least[who] / least["wildcal"] if ms else None,
                         memory[who] if ms else None, "", None, note))  # fmt: skip
        for row in rows[-1 - len(notes) :]:
            print(*(f"{x:.4g}" if isinstance(x, float) else x for x in row), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="ROWSxCLASSES")
    parser.add_argument("--seconds", type=float, default=1.5, help="of turns, for each of them")
    parser.add_argument("--jobs", nargs="+", help="some of them; the file keeps the others")
    parser.add_argument("--longest", type=float, default=60, help="seconds of one call of a peer")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table: list[tuple[Any, ...]] = []
    if options.jobs and options.output and options.output.exists():
        table = read(options.output)
    for size in options.sizes:
        n, k = map(int, size.split("x"))
        new = measure(n, k, options.seconds, options.longest, options.jobs)
        table = merged(table, new)
        if options.output:
            write(table, options.output)


def read(path: Path) -> list[tuple[Any, ...]]:
    with path.open(newline="") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def merged(old: list[tuple[Any, ...]], new: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return all rows, the new ones in the place of old ones of the same job, size and peer."""
    table = {tuple(map(str, row[:4])): row for row in old}
    table.update({tuple(map(str, row[:4])): row for row in new})
    return list(table.values())


def write(table: list[tuple[Any, ...]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for row in table:
            writer.writerow([f"{x:.4g}" if isinstance(x, float) else x for x in row])


if __name__ == "__main__":
    main()
