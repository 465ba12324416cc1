"""Fit every contestant in every draw, and keep the scores of each model in a csv."""

import csv
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from benchmarks.leaderboard.contestants import (
    BASELINE,
    FAST_PEERS,
    OURS,
    SLOW_PEERS,
    NotForThisData,
    Scores,
    calibrate,
)
from benchmarks.leaderboard.predictions import Predictions, Source

from wildcal import Identity, metrics

SIZES: Final = (50, 200, 1_000, 5_000)
N_DRAWS: Final = 5
# Contestants that take seconds per fit, or minutes and many GB with 1,000 classes: every fourth
# model, up to 100 classes, two sizes, three draws.
SLOW_SIZES: Final = (200, 1_000)
N_SLOW_DRAWS: Final = 3
SLOW_EVERY: Final = 4
MAX_SLOW_CLASSES: Final = 100
MIN_TEST: Final = 400
MAX_TEST: Final = 5_000
# Nothing is to be calibrated where nearly all is right, and a change of NLL has no scale.
MAX_ACCURACY: Final = 0.99
SMALLEST_PROBA: Final = 1e-7
HARM: Final = 0.005

FIELDS: Final = ("data", "model", "kind", "n_classes", "n", "draw", "method", "nll", "brier",
                 "excess_ece", "seconds", "error")  # fmt: skip


class Cell(NamedTuple):
    """A number of calibration samples and a draw of them."""

    n: int
    draw: int


def uncalibrated(predictions: Predictions) -> Scores:
    """Return the scores and their probabilities, zeros replaced as wildcal does by default.

    All contestants get the same positive probabilities: several libraries take the log of zero.
    """
    X = np.asarray(predictions.X, np.float64)
    y = np.asarray(predictions.y)
    identity = Identity().fit(X, y, input=predictions.input)
    proba = np.asarray(identity.predict_proba(X), np.float64)
    proba = np.maximum(proba, 1e-30)
    proba /= proba.sum(axis=1, keepdims=True)
    return Scores(proba if predictions.input == "proba" else X, predictions.input, proba)


def is_usable(predictions: Predictions) -> bool:
    """Return whether there is something to calibrate: two classes, and mistakes."""
    y = predictions.y
    is_right = np.asarray(predictions.X).argmax(axis=1) == y
    return len(np.unique(y)) > 1 and is_right.mean() <= MAX_ACCURACY


def has_slow(source: Source, n_classes: int) -> bool:
    """Return whether slow contestants take part, by the name of the model."""
    is_chosen = crc32(source.name.encode()) % SLOW_EVERY == 0
    return is_chosen and n_classes <= MAX_SLOW_CLASSES


def cells(predictions: Predictions) -> list[Cell]:
    """Return the cells for which there are enough samples."""
    room = len(predictions.y) - MIN_TEST
    return [Cell(n, draw) for n in SIZES if n <= room for draw in range(N_DRAWS)]


def contestants(cell: Cell, with_slow: bool) -> list[str]:
    """Return the names of the contestants of a cell."""
    names = [BASELINE, *OURS, *FAST_PEERS]
    if with_slow and cell.n in SLOW_SIZES and cell.draw < N_SLOW_DRAWS:
        names += SLOW_PEERS
    return names


def measure(scores: Scores, y: Any, cell: Cell, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the scores of each contestant in a cell."""
    order = np.random.default_rng([cell.n, cell.draw]).permutation(len(y))
    fit, test = order[: cell.n], order[cell.n : cell.n + MAX_TEST]
    for name in names:
        row: dict[str, Any] = {"n": cell.n, "draw": cell.draw, "method": name}
        start = time.process_time()
        try:
            if name == BASELINE:
                proba = scores.proba[test]
            else:
                proba = calibrate(name, scores[fit], y[fit], scores[test])
        except NotForThisData:
            continue
        except Exception as error:  # a failure is a result
            row["error"] = f"{type(error).__name__}: {error}".replace("\n", " ")[:80]
        else:
            seconds = time.process_time() - start
            row |= score(y[test], proba) | {"seconds": f"{seconds:.4f}"}
        yield row


def score(y: Any, proba: Any) -> dict[str, str]:
    """Return the scores; probabilities below SMALLEST_PROBA count as that."""
    proba = np.maximum(np.asarray(proba, np.float64), SMALLEST_PROBA)
    proba /= proba.sum(axis=1, keepdims=True)
    brier = (proba**2).sum(axis=1) - 2 * proba[np.arange(len(y)), y] + 1
    return {
        "nll": f"{float(metrics.nll(y, proba)):.6f}",
        "brier": f"{brier.mean():.6f}",
        "excess_ece": f"{float(metrics.excess_ece(y, proba)):.5f}",
    }


def run(sources: list[Source], folder: Path, *, progress: Any = None, draws: int = N_DRAWS) -> None:
    """Write the scores of all sources; what was computed before is not computed again."""
    for source in sources:
        path = folder / "scores" / f"{source.file_name}.csv"
        done = read(path)
        keys = {(row["n"], row["draw"], row["method"]) for row in done}
        predictions = source.load(folder / "predictions")
        if is_usable(predictions):
            scores = uncalibrated(predictions)
            head = {"data": source.data, "model": source.model, "kind": source.kind,
                    "n_classes": scores.proba.shape[1]}  # fmt: skip
            for cell in cells(predictions):
                names = contestants(cell, has_slow(source, head["n_classes"]))
                names = [m for m in names if (str(cell.n), str(cell.draw), m) not in keys]
                if cell.draw < draws and names:
                    rows = measure(scores, predictions.y, cell, names)
                    done += [head | row for row in rows]
                    write(done, path)
        if progress:
            progress(source)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a csv, none if it is not there."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows to a temporary name, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with new.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    new.replace(path)
