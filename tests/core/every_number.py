"""Prints a digest of what every method, estimator and metric makes of rows: no test by itself."""

import json
import tempfile
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np

from wildcal.accuracy import ESTIMATORS, make_estimator
from wildcal.calibrators import CALIBRATORS, WINDOW_METHODS, make_calibrator
from wildcal.evaluation import evaluate
from wildcal.io import save

warnings.simplefilter("ignore")
# Sums over more than 10,000 numbers, and products of 2**18, are split by OpenBLAS.
ROWS, ROWS_OF_THE_SLOW = 12_000, 3_000
SLOW = ("auto",)
MANY_CLASSES = ("vector", "svs", "matrix")


def rows(n, k):
    """Return logits, labels and environments; a good part of the predictions is wrong."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((n, k), np.float32)
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, y, np.arange(n) * 4 // n


def digest(*arrays):
    """Return a few letters of the bytes."""
    return sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:12]


def calibrated(name, n, k, folder):
    """Return the file of a fitted method, and what it says of rows."""
    logits, y, environment = rows(n, k)
    method = make_calibrator(name)
    distances = np.square(logits[:, :2]).astype(np.float64)
    beside = {"distances": distances} if "distances" in method.reads else {}
    more = {"environment": environment} if "environment" in method.reads else {}
    method.fit(logits, y, **beside, **more)
    save(method, folder / "fitted.json")
    text = np.frombuffer((folder / "fitted.json").read_bytes(), np.uint8)
    context = method.context(logits[: n // 2], **beside) if "window" in method.reads else None
    return digest(text, method.predict_proba(logits, context=context, **beside))


def estimated(name):
    """Return an estimated accuracy, with all that was fitted."""
    logits, y, environment = rows(ROWS, 5)
    second = {"second": np.roll(logits, 1, axis=0)} if ESTIMATORS[name].needs_second else {}
    fitted = make_estimator(name).fit(logits, y, environment, **second)
    found = fitted.estimate(logits, **second)
    kept = [v for v in vars(fitted).values() if isinstance(v, float | np.ndarray)]
    return digest(*kept, np.array([found.value, found.low, found.high]))


def measured(k):
    """Return every metric with its interval."""
    logits, y, _ = rows(ROWS, k)
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y[::10] = -1 if k > 2 else y[::10]
    found = evaluate(y, proba, n_boot=20).to_dict()["metrics"]
    return {f"{name} of {k} classes": repr(value) for name, value in found.items()}


def main():
    """Print them all."""
    found = measured(2) | measured(5)
    with tempfile.TemporaryDirectory() as folder:
        for name in (*CALIBRATORS, *WINDOW_METHODS, "dac+ets"):
            n = ROWS_OF_THE_SLOW if name in SLOW else ROWS
            found[name] = calibrated(name, n, 5, Path(folder))
        for name in MANY_CLASSES:
            found[f"{name} of 100 classes"] = calibrated(name, 1_000, 100, Path(folder))
    for name in ESTIMATORS:
        found[f"accuracy by {name}"] = estimated(name)
    print(json.dumps(found))


if __name__ == "__main__":  # pytest reads it for doctests
    main()
