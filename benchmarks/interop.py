"""The same calibrator in NumPy, torch and ONNX Runtime: one row at a time, and many at once.

    python benchmarks/interop.py --output benchmarks/interop.csv

One thread each, processor time. A turn measures the three one after the other, so that all of them
see the same machine; seconds are the median over turns, and a ratio is the median of the ratios of
each turn.
Before anything is timed the three must agree to 1e-5.
"""

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import numpy as np
import onnxruntime
import torch

from wildcal import CALIBRATORS
from wildcal.core.errors import CalibrationWarning
from wildcal.core.parallel import use_threads
from wildcal.interop.maps import map_of
from wildcal.interop.onnx.export import as_model
from wildcal.interop.torch import as_module
from wildcal.testing import make_suite

METHODS = ("ts", "ets", "energy", "spline", "irm")
SIZES = ((1, 10), (10_000, 10), (1, 1000), (2_000, 1000))
BACKENDS = ("NumPy", "torch", "ONNX Runtime")
TURNS = 9
# Calls of a turn are repeated until they take about this long.
SECONDS = 0.04


def fit(method: str, n_classes: int):
    """Return the method fitted on a synthetic suite of so many classes."""
    suite = make_suite(0, n_classes=n_classes, n_tuning=3000, n_ood_tuning=150, n_test=10)
    z, y = suite.tuning
    keep = slice(None) if CALIBRATORS[method].accepts_ood else y >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return CALIBRATORS[method]().fit(z[keep], y[keep])


def ways(calibrator, z: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """Return, for each backend, what computes the probabilities of all rows."""
    module, rows = as_module(calibrator), torch.from_numpy(z)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = as_model(map_of(calibrator)).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def in_torch() -> np.ndarray:
        with torch.inference_mode():
            return module(rows).numpy()

    return {
        "NumPy": lambda: calibrator.predict_proba(z),
        "torch": in_torch,
        "ONNX Runtime": lambda: session.run(["probabilities"], {"logits": z})[0],
    }


def seconds_of(call: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.process_time()
    call()
    once = time.process_time() - start
    repeats = max(1, int(SECONDS / max(once, 1e-7)))
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def measure(method: str, n: int, n_classes: int) -> list[dict[str, object]]:
    """Return a row for each backend."""
    calibrator = fit(method, n_classes)
    z = (4 * np.random.default_rng(1).standard_normal((n, n_classes))).astype(np.float32)
    calls = ways(calibrator, z)
    aim = calls["NumPy"]()
    for backend, call in calls.items():
        assert (np.abs(call() - aim) <= 1e-5).all(), f"{backend} gives other numbers"
    turns = [{backend: seconds_of(call) for backend, call in calls.items()} for _ in range(TURNS)]
    found = []
    for backend in BACKENDS:
        seconds = median(turn[backend] for turn in turns)
        found.append(
            {
                "method": method,
                "rows": n,
                "K": n_classes,
                "backend": backend,
                "microseconds": f"{1e6 * seconds:.1f}",
                "rows per second": f"{n / seconds:.0f}",
                "times NumPy": f"{median(t[backend] / t['NumPy'] for t in turns):.2f}",
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    output = parser.parse_args().output
    torch.set_num_threads(1)
    table: list[dict[str, object]] = []
    with use_threads(1):
        for n, n_classes in SIZES:
            for method in METHODS:
                rows = measure(method, n, n_classes)
                table += rows
                cells = "  ".join(f"{r['backend']} {r['microseconds']} µs" for r in rows)
                print(f"{n:6} x {n_classes:<5} {method:8} {cells}", flush=True)
    if output is not None:
        with output.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
