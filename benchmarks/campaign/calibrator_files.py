"""Calibrators and accuracy estimators, read from files that nobody saved."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError, Target
from benchmarks.campaign.mutants import broken_bytes, resealed, sealed_mutant
from benchmarks.campaign.promises import CLASSES, check_promises

from wildcal import accuracy, load, make_calibrator, save
from wildcal.accuracy import ESTIMATORS
from wildcal.calibrators import CALIBRATORS, DENSITY_METHODS
from wildcal.core.errors import FileFormatError
from wildcal.testing import made_up_distances

Rng = np.random.Generator


def labeled(n: int = 240, n_classes: int = CLASSES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logits, labels and the environment of each row; the second one is harder."""
    rng = np.random.default_rng(3)
    logits = 3 * rng.normal(size=(n, n_classes))
    environment = np.arange(n) % 2
    y = (logits / (1 + environment[:, None]) + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, y, environment


@functools.cache
def saved(method: str) -> str:
    """Return the file of a fitted calibrator."""
    logits, y, environment = labeled()
    calibrator = make_calibrator(method)
    beside = {}
    if "environment" in calibrator.reads:
        beside["environment"] = environment
    if "distances" in calibrator.reads:
        beside["distances"] = made_up_distances(logits)
    calibrator.fit(logits, y, **beside)
    with tempfile.TemporaryDirectory() as folder:
        save(calibrator, Path(folder) / "c.json")
        return (Path(folder) / "c.json").read_text()


@functools.cache
def saved_estimator(name: str) -> str:
    """Return the file of a fitted accuracy estimator."""
    logits, y, environment = labeled()
    estimator = ESTIMATORS[name]()
    estimator.fit(logits, y, environment)
    with tempfile.TemporaryDirectory() as folder:
        accuracy.save(estimator, Path(folder) / "a.json")
        return (Path(folder) / "a.json").read_text()


def _written(text: str | bytes, folder: str) -> Path:
    path = Path(folder) / "mutant.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return path


def _sealed_calibrator(rng: Rng) -> None:
    methods = [*CALIBRATORS, *DENSITY_METHODS]
    text = saved(methods[int(rng.integers(len(methods)))])
    with tempfile.TemporaryDirectory() as folder:
        calibrator = load(_written(sealed_mutant(json.loads(text), rng), folder))
        check_promises(calibrator)


def _flipped_calibrator(rng: Rng) -> None:
    methods = list(CALIBRATORS)
    text = saved(methods[int(rng.integers(len(methods)))])
    with tempfile.TemporaryDirectory() as folder:
        path = _written(broken_bytes(text.encode(), rng), folder)
        found = load(path)
        with tempfile.TemporaryDirectory() as again:
            save(found, Path(again) / "c.json")
            if json.loads((Path(again) / "c.json").read_text()) != json.loads(text):
                raise FindingError("a damaged file was read as another calibrator")


def _sealed_estimator(rng: Rng) -> None:
    names = list(ESTIMATORS)
    name = names[int(rng.integers(len(names)))]
    if name == "gde":  # reads the logits of two networks
        name = "ac"
    text = saved_estimator(name)
    with tempfile.TemporaryDirectory() as folder:
        estimator = accuracy.load(_written(sealed_mutant(json.loads(text), rng), folder))
    found = estimator.estimate(labeled(60, estimator.n_classes_)[0])
    if not 0 <= found.low <= found.value <= found.high <= 1:
        raise FindingError(f"an accuracy of {found}")


def _read_sealed(data: bytes) -> None:
    """Read a calibrator whose hash is right, whatever else it holds; for a guided fuzzer."""
    try:
        document = json.loads(data)
        text = resealed(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileFormatError("no document to seal") from None
    with tempfile.TemporaryDirectory() as folder:
        check_promises(load(_written(text, folder)))


ATTACKS = [
    Attack(
        "files/calibrator-sealed",
        _sealed_calibrator,
        (FileFormatError,),
        target=Target(lambda: saved("energy").encode(), _read_sealed),
    ),
    Attack("files/calibrator-bytes", _flipped_calibrator, (FileFormatError,)),
    Attack("files/accuracy-sealed", _sealed_estimator, (FileFormatError,)),
]
