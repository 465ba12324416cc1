"""Save and load fitted calibrators and accuracy estimators as JSON files.

A file holds the options and fitted numbers of dataclasses that are registered. Nothing is imported
from a name in a file, and no pickle is involved.
"""

import base64
import hashlib
import json
import os
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.core.profile import Profile
from wildcal.core.registry import registered_class
from wildcal.io.atomic import atomic_write
from wildcal.version import __version__

FORMAT: Final = "wildcal calibrator"
"""Format of every file, also of one of an accuracy estimator."""
FORMAT_VERSION: Final = 2
# Larger arrays are stored as base64, with their dtype and shape.
_MAX_LISTED: Final = 64
# Parts of calibrators that are not calibrators.
_PARTS: Final[dict[str, type[Any]]] = {"FitInfo": FitInfo, "Profile": Profile}


@dataclass(frozen=True)
class ArtifactInfo:
    """Version, metadata and columns of a calibrator file."""

    version: str
    """Version of wildcal that wrote the file."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Notes of the user."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Columns of scores, label, weight and so on."""


def save(
    calibrator: Any,
    path: str | os.PathLike[str],
    *,
    metadata: dict[str, Any] | None = None,
    columns: dict[str, Any] | None = None,
) -> None:
    """Write a fitted calibrator or accuracy estimator to a JSON file.

    Parameters
    ----------
    calibrator
        A fitted calibrator or accuracy estimator.
    path
        Where to write; an existing file is replaced.
    metadata
        Notes to keep with it: strings, numbers, lists and dicts.
    columns
        The declaration of columns that reading files used.
    """
    if not hasattr(calibrator, "check_is_fitted"):
        raise InputError(
            f"calibrator must be a Calibrator, got {type(calibrator).__name__}.", "calibrator"
        )
    calibrator.check_is_fitted()
    payload = {
        "calibrator": encode(calibrator),
        "metadata": metadata or {},
        "columns": columns or {},
    }
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "wildcal": __version__,
        "sha256": _digest(payload),
        **payload,
    }
    with atomic_write(path) as file:
        json.dump(document, file, indent=1, allow_nan=False)
        file.write("\n")


def load(path: str | os.PathLike[str], *, return_info: bool = False) -> Any:
    """Return the calibrator or estimator in a file, with `return_info` also an `ArtifactInfo`."""
    document = _read(Path(path))
    payload = {key: document.get(key) for key in ("calibrator", "metadata", "columns")}
    if document.get("sha256") != _digest(payload):
        raise FileFormatError(f"{path} is damaged: its checksum does not match its content.")
    try:
        calibrator = _decode(payload["calibrator"])
        if isinstance(calibrator, Calibrator):
            _check_prediction(calibrator)
        elif hasattr(calibrator, "check_loaded"):  # an accuracy estimator
            calibrator.check_loaded()
        else:
            raise ValueError(f"it must hold a calibrator, got {type(calibrator).__name__}")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"{path} cannot be read: {error}") from error
    if not return_info:
        return calibrator
    info = ArtifactInfo(
        str(document.get("wildcal")), payload["metadata"] or {}, payload["columns"] or {}
    )
    return calibrator, info


def _check_prediction(calibrator: Calibrator) -> None:
    """Raise unless a calibrator can predict: fitted numbers may be missing or of a wrong type."""
    k = calibrator.n_classes_
    samples = {"proba": np.full((1, k), 1 / k), "score": np.zeros(1), "confidence": np.full(1, 0.5)}
    x = samples.get(calibrator.input_, np.zeros((1, k)))
    inputs: dict[str, Any] = {}
    if calibrator.requires:
        inputs["knn_distances"] = np.zeros((1, getattr(calibrator, "n_layers", 1)))
    if not np.isfinite(calibrator.predict_proba(x, **inputs)).all():
        raise ValueError("its probabilities are not finite")


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} must be a JSON file of a calibrator: {error}") from error
    if (
        not isinstance(document, dict)
        or document.get("format") != FORMAT
        or not isinstance(document.get("format_version"), int)
    ):
        raise FileFormatError(f"{path} is a JSON file, but not of a calibrator.")
    if document["format_version"] < FORMAT_VERSION:
        raise FileFormatError(f"{path} was written by wildcal 0.1; fit again.")
    if document["format_version"] > FORMAT_VERSION:
        raise FileFormatError(f"{path} was written by a newer wildcal. Try pip install -U wildcal.")
    return document


def _digest(payload: dict[str, Any]) -> str:
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def encode(value: Any) -> Any:
    """Return a value as JSON; dataclasses as {"class": name, field: value, ...}."""
    if is_dataclass(value) and not isinstance(value, type):
        own = {
            f.name: encode(getattr(value, f.name))
            for f in fields(value)
            if hasattr(value, f.name)
            and not (f.metadata.get("is_optional") and getattr(value, f.name) == f.default)
        }
        return {"class": type(value).__name__, **own}
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, str | int | float):
        return value
    raise InputError(
        f"options must be numbers, texts or calibrators to be saved, got {value!r:.80}."
    )


def _encode_array(array: NDArray[Any]) -> dict[str, Any]:
    if array.size <= _MAX_LISTED and (array.dtype.kind != "f" or np.isfinite(array).all()):
        return {"array": array.tolist(), "dtype": array.dtype.name, "shape": list(array.shape)}
    raw = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
    code = base64.b64encode(raw).decode()
    return {"base64": code, "dtype": array.dtype.name, "shape": list(array.shape)}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "dtype" in value:
        return _decode_array(value)
    name = value["class"]
    kind = _PARTS.get(name) or registered_class(name)
    known = {f.name: f for f in fields(kind)}
    given = {key: _decode(item) for key, item in value.items() if key != "class"}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{name} has no field {unknown[0]!r}")
    new = kind(**{key: item for key, item in given.items() if known[key].init})
    for key, item in given.items():
        if not known[key].init:
            setattr(new, key, item)
    return new


def _decode_array(value: dict[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(value["dtype"])
    if dtype.kind not in "fib":
        raise ValueError(f"arrays must be numbers, got dtype {dtype}")
    if "base64" in value:
        raw = base64.b64decode(value["base64"], validate=True)
        array = np.frombuffer(raw, dtype=dtype.newbyteorder("<")).astype(dtype)
    else:
        array = np.array(value["array"], dtype=dtype)
    return array.reshape(value["shape"])
