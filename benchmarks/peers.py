"""Time of common tasks against other packages, on the same inputs and one thread.

    make bench
    python benchmarks/peers.py --sizes 50000x10 --output peers.csv

The results of a package are compared with ours first. A package that is not installed, fails, or
returns something else is named in the csv and not timed. Then all take turns, and the least
processor time of each counts.
"""

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import numpy as np

from wildcal import IsotonicMulticlass, TemperatureScaling, metrics

HEADER = ("task", "samples", "classes", "package", "ms", "ratio", "note")
SIZES = ["50000x10", "50000x1000"]
Call = Callable[[], Any]


class Task(NamedTuple):
    """One task: our call, those of others, and how far their results may be apart."""

    name: str
    ours: Call
    others: dict[str, Callable[[], Call]]  # each prepares its call, which may raise ImportError
    tolerance: float


def make_samples(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident float32 logits and labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    logits = rng.standard_normal((n, k), dtype=np.float32)
    margins = rng.normal(np.sqrt(2 * np.log(k)) + 1, 1.6, n)
    logits[np.arange(n), y] += margins.astype(np.float32)
    return 2 * logits, y


def numpy_softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def numpy_brier(y: np.ndarray, p: np.ndarray) -> float:
    return float(((p * p).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1).mean())


def tensor(x: np.ndarray) -> Any:
    import torch

    torch.set_num_threads(1)
    return torch.from_numpy(x)


def torch_softmax(z: np.ndarray, temperature: float) -> Call:
    import torch

    x = tensor(z)
    return lambda: torch.softmax(x / temperature, dim=1).numpy()


def sklearn_fit(z: np.ndarray, y: np.ndarray) -> Call:
    from sklearn.calibration import _TemperatureScaling

    return lambda: 1 / _TemperatureScaling().fit(z, y).beta_


def probmetrics_fit(z: np.ndarray, y: np.ndarray) -> Call:
    from probmetrics.calibrators import get_calibrator
    from probmetrics.distributions import CategoricalLogits

    x, labels = CategoricalLogits(tensor(z)), tensor(y)

    def fit() -> float:
        calibrator = get_calibrator("temp-scaling")
        calibrator.fit_torch(x, labels)
        return float(1 / calibrator.invtemp_)

    return fit


def torchmetrics_ece(y: np.ndarray, p: np.ndarray) -> Call:
    from torchmetrics.functional.classification import multiclass_calibration_error

    x, labels, k = tensor(p), tensor(y), p.shape[1]
    return lambda: float(multiclass_calibration_error(x, labels, k, n_bins=15))


def netcal_ece(y: np.ndarray, p: np.ndarray) -> Call:
    from netcal.metrics import ECE

    return lambda: float(ECE(15).measure(p, y))


def uncertainty_calibration_ece(y: np.ndarray, p: np.ndarray) -> Call:
    import calibration

    return lambda: float(calibration.get_ece(p, y, num_bins=15))


def relplot_ece(y: np.ndarray, p: np.ndarray) -> Call:
    import relplot

    confidence, correct = p.max(axis=1), p.argmax(axis=1) == y
    return lambda: float(relplot.smECE(f=confidence, y=correct))


def make_tasks(z: np.ndarray, y: np.ndarray) -> list[Task]:
    ts = TemperatureScaling().fit(z, y)
    irm = IsotonicMulticlass().fit(z[:20_000], y[:20_000])
    t, p, n = np.float32(ts.temperature_), ts.predict_proba(z), len(y)

    def interpolate() -> np.ndarray:
        q = np.interp(numpy_softmax(z), irm.knots_, irm.values_) + 1e-9
        return q / q.sum(axis=1, keepdims=True)

    return [
        Task(
            "predict, `ts`",
            lambda: ts.predict_proba(z),
            {"NumPy": lambda: lambda: numpy_softmax(z / t), "torch": lambda: torch_softmax(z, t)},
            tolerance=1e-5,
        ),
        Task(
            "fit, `ts`",
            lambda: TemperatureScaling().fit(z, y).temperature_,
            {
                "scikit-learn": lambda: sklearn_fit(z, y),
                "probmetrics": lambda: probmetrics_fit(z, y),
            },
            tolerance=2e-3,
        ),
        Task(
            "predict, `irm`",
            lambda: irm.predict_proba(z),
            {"np.interp": lambda: interpolate},
            tolerance=1e-2,  # ours keeps the predicted class
        ),
        Task(
            "NLL",
            lambda: metrics.nll(y, p),
            {"NumPy": lambda: lambda: float(-np.log(p[np.arange(n), y]).mean())},
            tolerance=1e-5,
        ),
        Task(
            "Brier score",
            lambda: metrics.brier_score(y, p),
            {"NumPy": lambda: lambda: numpy_brier(y, p)},
            tolerance=1e-5,
        ),
        Task(
            "ECE",
            lambda: metrics.ece(y, p),
            {
                "torchmetrics": lambda: torchmetrics_ece(y, p),
                "netcal": lambda: netcal_ece(y, p),
                "uncertainty-calibration": lambda: uncertainty_calibration_ece(y, p),
            },
            tolerance=1e-4,
        ),
        Task(
            "KDE-ECE; relplot: smooth ECE",
            lambda: metrics.kde_ece(y, p),
            {"relplot": lambda: relplot_ece(y, p)},
            tolerance=np.inf,  # another definition
        ),
    ]


def least_times(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Return the least processor time of each call; each is repeated for that many seconds."""
    least, total = dict.fromkeys(calls, np.inf), dict.fromkeys(calls, 0.0)
    while waiting := [package for package in calls if total[package] < seconds]:
        for package in waiting:
            start = time.process_time()
            calls[package]()
            used = time.process_time() - start
            least[package] = min(least[package], used)
            total[package] += used
    return least


def measure(task: Task, n: int, k: int, seconds: float) -> list[list[Any]]:
    """Return the lines of one task."""
    calls, notes, result = {"wildcal": task.ours}, {"wildcal": ""}, task.ours()
    for package, prepare in task.others.items():
        try:
            call = prepare()
            distance = np.abs(np.asarray(call(), float) - result).max()
        except Exception as error:  # any failure of another package is a note
            notes[package] = f"{type(error).__name__}: {error}".splitlines()[0][:60]
            continue
        notes[package] = "" if distance <= task.tolerance else f"differs by {distance:.2g}"
        if not notes[package]:
            calls[package] = call
    least = least_times(calls, seconds)
    return [
        [task.name, n, k, package, f"{1e3 * least[package]:.4g}",
         f"{least[package] / least['wildcal']:.3g}", ""]
        if package in least
        else [task.name, n, k, package, "", "", note]
        for package, note in notes.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="SAMPLESxCLASSES")
    parser.add_argument("--seconds", type=float, default=2, help="of repetitions, for each package")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: list[list[Any]] = []
    for size in options.sizes:
        n, k = map(int, size.split("x"))
        z, y = make_samples(n, k)
        for task in make_tasks(z, y):
            lines += measure(task, n, k, options.seconds)
            print(*lines[-1], flush=True)
            with options.output.open("w", newline="") as file:
                csv.writer(file).writerows([HEADER, *lines])


if __name__ == "__main__":
    main()
