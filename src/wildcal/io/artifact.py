"""Save and load a fitted calibrator: one JSON file that a person can read.

The file holds the method's short name, its options, its fitted values, a summary of the fit and a
SHA-256 of all that. Numbers are written so that they read back bit for bit; long arrays as base64.
Nothing in the file is executed: every value is checked against the type the method declares.
"""

import base64
import binascii
import json
import types
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from wildcal.calibrators import CALIBRATORS, DensityAware
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.errors import FileFormatError, NotFittedError
from wildcal.io.files import replacing
from wildcal.io.sealed import Json, Kind
from wildcal.version import __version__

# The largest calibrator we know, a full matrix for 1000 classes, takes 11 MB.
_KIND = Kind("wildcal calibrator", "calibrator file", "`wildcal fit`", version=1, largest=1 << 28)
# Longer arrays are stored as base64: nobody reads so many numbers, and it is smaller.
_READABLE_NUMBERS = 10_000
_DTYPES = ("float64", "float32", "int64")


def save(calibrator: Calibrator, path: str | Path) -> None:
    """Write a fitted calibrator to a JSON file; `load` gives back the same bytes of output."""
    document = describe_file(calibrator)
    text = json.dumps(document, indent=2, allow_nan=False)
    _rebuild(json.loads(text))  # what cannot be read back is not written
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", "utf-8")


def describe_file(calibrator: Calibrator) -> dict[str, Json]:
    """Return what `save` writes, as plain JSON values."""
    return _KIND.seal({"wildcal": __version__, **_describe(calibrator)})


def load(path: str | Path) -> Calibrator:
    """Return the calibrator saved in a file; any damage gives a FileFormatError."""
    path = Path(path)
    document = _KIND.read(path)
    try:
        return _rebuild(document)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,  # a calibrator in a calibrator in a calibrator ...
    ) as error:
        raise FileFormatError(f"{path} is not a valid calibrator: {error}") from error


def _describe(calibrator: Calibrator) -> dict[str, Json]:
    if not calibrator.is_fitted:
        raise NotFittedError(f"{type(calibrator).__name__} is not fitted; nothing to save.")
    fitted = _field_names(type(calibrator))[1]
    return {
        **_describe_options(calibrator),
        "title": calibrator.title,
        "n_classes": calibrator.n_classes_,
        "fitted": {name: _encode(getattr(calibrator, name)) for name in fitted},
        "fit": calibrator.fit_.to_dict(),
    }


def _describe_options(calibrator: Calibrator) -> dict[str, Json]:
    names = _field_names(type(calibrator))[0]
    options = {name: _encode(getattr(calibrator, name)) for name in names}
    return {"method": calibrator.name, "options": options}


def _rebuild(document: dict[str, Json]) -> Calibrator:
    calibrator = _rebuild_options(document)
    hints = get_type_hints(type(calibrator))
    fitted_names = _field_names(type(calibrator))[1]
    fitted = _decode_all(hints, document["fitted"], fitted_names, "fitted")
    for name, value in fitted.items():
        setattr(calibrator, name, value)
    n_classes = _decode(int, document["n_classes"], "n_classes")
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes}")
    calibrator.n_classes_ = n_classes
    calibrator.check_fitted_values()
    calibrator.fit_ = _summary(document["fit"])
    return calibrator


def _rebuild_options(document: dict[str, Json]) -> Calibrator:
    """Return an unfitted calibrator."""
    method = document["method"]
    # Looked up now, and not copied at import: users may add methods of their own.
    known: dict[str, type[Calibrator]] = {**CALIBRATORS, DensityAware.name: DensityAware}
    if not isinstance(method, str) or method not in known:
        raise ValueError(f"unknown method {method!r}")
    kind = known[method]
    options = _decode_all(
        get_type_hints(kind), document["options"], _field_names(kind)[0], "options"
    )
    calibrator = kind(**options)
    calibrator.check_options()
    return calibrator


def _summary(document: dict[str, Json]) -> FitSummary:
    hints = get_type_hints(FitSummary)
    names = [f.name for f in fields(FitSummary)]
    return FitSummary(**_decode_all(hints, document, names, "fit"))


def _field_names(kind: type[Calibrator]) -> tuple[list[str], list[str]]:
    own = fields(kind)  # type: ignore[arg-type]  # every calibrator is a dataclass
    return [f.name for f in own if f.init], [f.name for f in own if not f.init]


def _encode(value: object) -> Json:
    if isinstance(value, Calibrator):  # an option may be one that is not fitted
        return _describe(value) if value.is_fitted else _describe_options(value)
    if isinstance(value, np.ndarray):
        if value.size <= _READABLE_NUMBERS:
            return {"dtype": value.dtype.name, "values": value.tolist()}
        little = value.astype(value.dtype.newbyteorder("<"))
        return {
            "dtype": value.dtype.name,
            "shape": list(value.shape),
            "base64": base64.b64encode(little.tobytes()).decode(),
        }
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value


def _decode_all(
    hints: dict[str, Any], document: Json, names: list[str], where: str
) -> dict[str, Any]:
    if not isinstance(document, dict) or set(document) != set(names):
        found = sorted(document) if isinstance(document, dict) else document
        raise ValueError(f"{where} must hold {sorted(names)}, got {found}")
    return {name: _decode(hints[name], document[name], name) for name in names}


def _decode(hint: Any, value: Json, where: str) -> Any:
    """Return a JSON value as the declared type; raise ValueError where it is another."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if np.isfinite(value):
            return float(value)
    elif hint in (int, str, bool):
        if type(value) is hint:
            return value
    elif hint is type(None):
        if value is None:
            return None
    elif origin is Literal:
        if value in arguments:
            return value
    elif origin in (Union, types.UnionType):
        for option in arguments:
            try:
                return _decode(option, value, where)
            except ValueError:
                continue
    elif origin is np.ndarray:
        return _decode_array(value, where)
    elif isinstance(hint, type) and issubclass(hint, Calibrator):
        if isinstance(value, dict):
            return _rebuild(value) if "fitted" in value else _rebuild_options(value)
    elif origin in (list, tuple) and isinstance(value, list):
        if origin is tuple and arguments[-1] is not Ellipsis:
            if len(value) == len(arguments):
                return tuple(_decode(a, v, where) for a, v in zip(arguments, value, strict=True))
        else:
            return origin(_decode(arguments[0], item, where) for item in value)
    raise ValueError(f"{where} is {value!r:.80}, which it cannot be")


def _decode_array(value: Json, where: str) -> Any:
    if not isinstance(value, dict) or value.get("dtype") not in _DTYPES:
        raise ValueError(f"{where} is not an array of {', '.join(_DTYPES)}")
    dtype = np.dtype(value["dtype"])
    if "values" in value:
        array = np.array(value["values"], dtype)
    else:
        try:
            raw = base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"{where} is not base64") from error
        array = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype).reshape(value["shape"])
    if not np.isfinite(array).all():
        raise ValueError(f"{where} holds a number that is not finite")
    return array
