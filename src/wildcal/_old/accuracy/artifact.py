"""Save and load a fitted estimator: one JSON file with a SHA-256, whose values are all checked.

A calibrator inside an estimator is a document of its own, read as any calibrator file is.
"""

import json
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from wildcal._old.accuracy.estimator import AccuracyEstimator
from wildcal._old.accuracy.registry import ESTIMATORS
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.errors import FileFormatError
from wildcal._old.core.stored import Nested, kind_of
from wildcal._old.io import artifact
from wildcal._old.io.artifact import About
from wildcal._old.io.files import replacing
from wildcal._old.io.sealed import Json, Kind
from wildcal._old.io.values import decode, encode_array
from wildcal.version import __version__

_KIND: Final = Kind(
    "wildcal accuracy estimator",
    "accuracy estimator file",
    "`wildcal._old.accuracy.save`",
    version=1,
    largest=1 << 26,
)


def save(estimator: AccuracyEstimator, path: str | Path, about: About | None = None) -> None:
    """Write a fitted estimator to a JSON file; `load` gives back one with the same answers.

    `about` says how its rows are to be read, as in files of calibrators.
    """
    text = json.dumps(describe_file(estimator, about), indent=2, allow_nan=False)
    _rebuild_all(json.loads(text))  # what cannot be read back is not written
    with replacing(path, sync=True) as temporary:
        temporary.write_text(text + "\n", "utf-8")


def describe_file(estimator: AccuracyEstimator, about: About | None = None) -> dict[str, Json]:
    """Return what `save` writes, as plain JSON values."""
    estimator.check_is_fitted()
    return _KIND.seal(
        {
            "wildcal": __version__,
            "estimator": estimator.name,
            "title": estimator.title,
            "options": _encode_all(estimator, init=True),
            "fitted": _encode_all(estimator, init=False),
            **artifact.describe_about(about or About()),
        }
    )


def load(path: str | Path) -> AccuracyEstimator:
    """Return the estimator saved in a file; any damage gives a FileFormatError."""
    return load_with_about(path)[0]


def load_with_about(path: str | Path) -> tuple[AccuracyEstimator, About]:
    """Return the estimator saved in a file, and what the file says about its rows."""
    path = Path(path)
    return _rebuild_from(_KIND.read(path), path)


def rebuild(document: dict[str, Json], where: str = "the document") -> AccuracyEstimator:
    """Return the estimator that `describe_file` described, for files that hold one inside."""
    return _rebuild_from(_KIND.opened(document, where), where)[0]


def _rebuild_from(document: dict[str, Json], where: str | Path) -> tuple[AccuracyEstimator, About]:
    try:
        return _rebuild_all(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"{where} is not a valid accuracy estimator: {error}") from error


def _rebuild_all(document: dict[str, Json]) -> tuple[AccuracyEstimator, About]:
    estimator = _rebuild(document)
    return estimator, artifact.rebuild_about(document, estimator.n_classes_)


def _rebuild(document: dict[str, Json]) -> AccuracyEstimator:
    name = document["estimator"]
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ValueError(f"unknown estimator {name!r:.40}")
    kind = ESTIMATORS[name]
    estimator = kind(**_decode_all(kind, document["options"], "options"))
    for field, value in _decode_all(kind, document["fitted"], "fitted").items():
        setattr(estimator, field, value)
    if estimator.n_classes_ < 2:
        raise ValueError(f"n_classes must be at least 2, got {estimator.n_classes_}")
    estimator._check_fitted()
    return estimator


def _fields(kind: type[AccuracyEstimator], *, init: bool) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.init == init]


def _encode_all(estimator: AccuracyEstimator, *, init: bool) -> dict[str, Json]:
    names = [field.name for field in _fields(type(estimator), init=init)]
    return {name: _encode(getattr(estimator, name)) for name in names}


def _encode(value: object) -> Json:
    if isinstance(value, Calibrator):
        return artifact.describe_file(value)
    return encode_array(value) if isinstance(value, np.ndarray) else value


def _decode_all(kind: type[AccuracyEstimator], document: Json, where: str) -> dict[str, Any]:
    own = _fields(kind, init=where == "options")
    names = sorted(field.name for field in own)
    if not isinstance(document, dict) or sorted(document) != names:
        found = sorted(document) if isinstance(document, dict) else document
        raise ValueError(f"{where} must hold {names}, got {found!r:.200}")
    return {
        field.name: decode(
            kind_of(field, kind.__name__), document[field.name], field.name, _load_calibrator
        )
        for field in own
    }


def _load_calibrator(document: dict[str, Json], kind: Nested) -> Calibrator:
    calibrator = artifact.rebuild(document, "the calibrator")
    if calibrator.name != kind.method:
        raise ValueError(f"the calibrator must be {kind.method}, got {calibrator.name}")
    return calibrator
