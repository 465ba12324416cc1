"""Save and load a fitted estimator: one JSON file with a SHA-256, whose values are all checked.

A calibrator inside an estimator is a document of its own, read as any calibrator file is.
"""

import json
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_type_hints

import numpy as np

from wildcal.accuracy.estimator import AccuracyEstimator
from wildcal.accuracy.registry import ESTIMATORS
from wildcal.calibrators import ContextScaling
from wildcal.core.arrays import FloatArray, Labels
from wildcal.core.calibrator import Calibrator
from wildcal.core.errors import FileFormatError
from wildcal.io import artifact
from wildcal.io.files import replacing
from wildcal.io.sealed import Json, Kind
from wildcal.version import __version__

_KIND: Final = Kind(
    "wildcal accuracy estimator",
    "accuracy estimator file",
    "`wildcal accuracy fit`",
    version=1,
    largest=1 << 26,
)
_DTYPES: Final = {FloatArray: np.float64, Labels: np.int64}


def save(estimator: AccuracyEstimator, path: str | Path) -> None:
    """Write a fitted estimator to a JSON file; `load` gives back one with the same answers."""
    text = json.dumps(describe_file(estimator), indent=2, allow_nan=False)
    _rebuild(json.loads(text))  # what cannot be read back is not written
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", "utf-8")


def describe_file(estimator: AccuracyEstimator) -> dict[str, Json]:
    """Return what `save` writes, as plain JSON values."""
    estimator.check_is_fitted()
    options, fitted = _field_names(type(estimator))
    return _KIND.seal(
        {
            "wildcal": __version__,
            "estimator": estimator.name,
            "title": estimator.title,
            "options": {name: getattr(estimator, name) for name in options},
            "fitted": {name: _encode(getattr(estimator, name)) for name in fitted},
        }
    )


def load(path: str | Path) -> AccuracyEstimator:
    """Return the estimator saved in a file; any damage gives a FileFormatError."""
    path = Path(path)
    document = _KIND.read(path)
    try:
        return _rebuild(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"{path} is not a valid accuracy estimator: {error}") from error


def _rebuild(document: dict[str, Json]) -> AccuracyEstimator:
    name = document["estimator"]
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ValueError(f"unknown estimator {name!r:.40}")
    kind = ESTIMATORS[name]
    hints = get_type_hints(kind)
    options, fitted = _field_names(kind)
    estimator = kind(**_decode_all(hints, document["options"], options, "options"))
    for field, value in _decode_all(hints, document["fitted"], fitted, "fitted").items():
        setattr(estimator, field, value)
    if estimator.n_classes_ < 2:
        raise ValueError(f"n_classes must be at least 2, got {estimator.n_classes_}")
    estimator._check_fitted()
    return estimator


def _field_names(kind: type[AccuracyEstimator]) -> tuple[list[str], list[str]]:
    return [f.name for f in fields(kind) if f.init], [f.name for f in fields(kind) if not f.init]


def _encode(value: object) -> Json:
    if isinstance(value, Calibrator):
        return artifact.describe_file(value)
    return value.tolist() if isinstance(value, np.ndarray) else value


def _decode_all(
    hints: dict[str, Any], document: Json, names: list[str], where: str
) -> dict[str, Any]:
    if not isinstance(document, dict) or set(document) != set(names):
        found = sorted(document) if isinstance(document, dict) else document
        raise ValueError(f"{where} must hold {sorted(names)}, got {found!r:.200}")
    return {name: _decode(hints[name], document[name], name) for name in names}


def _decode(hint: Any, value: Json, where: str) -> Any:
    """Return a JSON value as the declared type; raise ValueError where it is another."""
    if hint is float and type(value) in (int, float) and np.isfinite(value):
        return float(value)
    if hint in (int, bool) and type(value) is hint:
        return value
    if hint in _DTYPES and isinstance(value, list):
        plain = (int, float) if hint == FloatArray else (int,)
        if all(type(x) in plain and np.isfinite(x) for x in value):
            return np.array(value, _DTYPES[hint])
    if hint is ContextScaling and isinstance(value, dict):
        return _load_calibrator(value)
    raise ValueError(f"{where} is {value!r:.80}, which it cannot be")


def _load_calibrator(document: dict[str, Json]) -> ContextScaling:
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder) / "calibrator.json"
        inner.write_text(json.dumps(document), "utf-8")
        calibrator = artifact.load(inner)
    if not isinstance(calibrator, ContextScaling):
        raise ValueError(f"the calibrator must be context scaling, got {calibrator.name}")
    return calibrator
