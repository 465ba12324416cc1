"""Save and load a fitted calibrator: one JSON file that a person can read.

The file holds the method's short name, its options, its fitted values, a summary of the fit, where
it was told the names of the classes, what the numbers were and notes of the user, and a SHA-256 of
all that. Nothing in the file is executed: every value is checked against the kind that its field
declares.
"""

import json
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from wildcal._old import bridge
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.calibrators.temperature import TemperatureScaling
from wildcal._old.core.calibrator import Calibrator, FitSummary
from wildcal._old.core.checks import check_choice
from wildcal._old.core.errors import FileFormatError, NotFittedError
from wildcal._old.core.kinds import KINDS
from wildcal._old.core.labels import ClassNames
from wildcal._old.core.stored import INTEGER, Either, Nested, Stored, Written, kind_of
from wildcal._old.io.sealed import Json, Kind
from wildcal._old.io.values import decode, encode_array
from wildcal.core.registry import CALIBRATORS as NEW
from wildcal.version import __version__

# The largest calibrator we know, a full matrix for 1000 classes, takes 11 MB.
_KIND = Kind("wildcal calibrator", "calibrator file", "`wildcal.save`", version=1, largest=1 << 28)


@dataclass(frozen=True, slots=True)
class About:
    """What a file says besides the calibrator: how to read rows for it, and notes of the user."""

    classes: ClassNames | None = None
    """The names of the classes, in the order of the columns."""
    kind: str = "logits"
    """What the numbers were that it was fitted on."""
    floor: float | None = None
    """What probabilities of zero were read as."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Free words by name, such as the network, a hash of the data or a date."""

    def __post_init__(self) -> None:
        """Raise a ValueError for what a file cannot say."""
        check_choice("kind", self.kind, KINDS)
        if self.floor is not None and not (type(self.floor) is float and 0 < self.floor < 1):
            raise ValueError(f"floor must be a number between 0 and 1, got {self.floor!r:.40}.")
        if not all(isinstance(w, str) for pair in self.notes.items() for w in pair):
            raise ValueError("notes must map texts to texts.")


def save(calibrator: Calibrator, path: str | Path, about: About | None = None) -> None:
    """Write a fitted calibrator to a JSON file; `load` gives back the same bytes of output.

    `about` says how its rows are to be read, and what else is worth keeping.
    """
    if isinstance(calibrator, bridge.Bridged):
        bridge.save(calibrator, path, about or About())
        return
    from wildcal._old.io.files import replacing  # wildcal.io imports this module

    document = describe_file(calibrator, about)
    text = json.dumps(document, indent=2, allow_nan=False)
    read_back = json.loads(text)  # what cannot be read back is not written
    _rebuild(read_back)
    rebuild_about(read_back, read_back["n_classes"])
    with replacing(path, sync=True) as temporary:
        temporary.write_text(text + "\n", "utf-8")


def describe_file(calibrator: Calibrator, about: About | None = None) -> dict[str, Json]:
    """Return what `save` writes, as plain JSON values."""
    if isinstance(calibrator, bridge.Bridged):
        return bridge.describe(calibrator)
    more = describe_about(about or About())
    return _KIND.seal({"wildcal": __version__, **_describe(calibrator), **more})


def load(path: str | Path) -> Calibrator:
    """Return the calibrator saved in a file; any damage gives a FileFormatError."""
    return load_with_about(path)[0]


def load_with_about(path: str | Path) -> tuple[Calibrator, About]:
    """Return the calibrator saved in a file, and what the file says about its rows."""
    path = Path(path)
    if bridge.is_new_file(path):
        calibrator, more = bridge.load(path)
        return calibrator, About(**more)
    document = _KIND.read(path)
    method = str(document.get("method"))
    if method in NEW or method == "tsmix" or method.startswith("dac"):
        raise FileFormatError(f"{path} was written by wildcal 0.1; fit again.")
    return _rebuild_all(document, path)


def rebuild(document: dict[str, Json], where: str = "the document") -> Calibrator:
    """Return the calibrator that `describe_file` described, for files that hold one inside."""
    return _rebuild_all(_KIND.opened(document, where), where)[0]


def _rebuild_all(document: dict[str, Json], where: str | Path) -> tuple[Calibrator, About]:
    try:
        return _rebuild(document), rebuild_about(document, document["n_classes"])
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,  # a calibrator in a calibrator in a calibrator ...
    ) as error:
        raise FileFormatError(f"{where} is not a valid calibrator: {error}") from error


def describe_about(about: About) -> dict[str, Json]:
    """Return the entries of what was told; plain logits without names need none."""
    told: dict[str, Json] = {}
    if about.classes is not None:
        told["classes"] = list(about.classes.names)
    if about.kind != "logits":
        told["input"] = {"kind": about.kind, "floor": about.floor}
    if about.notes:
        told["notes"] = dict(about.notes)
    return told


def rebuild_about(document: dict[str, Json], n_classes: int) -> About:
    """Return what a document was told; raise where that cannot be."""
    names, given = document.get("classes"), document.get("input", {"kind": "logits", "floor": None})
    if names is not None and len(names) != n_classes:
        raise ValueError(f"classes must be {n_classes} names, got {len(names)}")
    classes = None if names is None else ClassNames(tuple(names))
    return About(classes, given["kind"], given["floor"], document.get("notes", {}))


def _describe(calibrator: Calibrator) -> dict[str, Json]:
    if not calibrator.is_fitted:
        raise NotFittedError(f"{type(calibrator).__name__} is not fitted; nothing to save.")
    return {
        **_describe_options(calibrator),
        "title": calibrator.title,
        "n_classes": calibrator.n_classes_,
        "fitted": _encode_all(calibrator, init=False),
        "fit": calibrator.fit_.to_dict(),
    }


def _describe_options(calibrator: Calibrator) -> dict[str, Json]:
    return {"method": calibrator.name, "options": _encode_all(calibrator, init=True)}


def _rebuild(document: dict[str, Json]) -> Calibrator:
    calibrator = _rebuild_options(document)
    for name, value in _decode_all(type(calibrator), document["fitted"], "fitted").items():
        setattr(calibrator, name, value)
    n_classes = decode(INTEGER, document["n_classes"], "n_classes", _rebuild_nested)
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes}")
    calibrator.n_classes_ = n_classes
    calibrator.check_fitted_values()
    calibrator.fit_ = FitSummary(**_decode_all(FitSummary, document["fit"], "fit"))
    return calibrator


def _rebuild_options(document: dict[str, Json]) -> Calibrator:
    """Return an unfitted calibrator."""
    method = document["method"]
    known: dict[str, type[Calibrator]] = {
        kind.name: kind for kind in (ContextScaling, TemperatureScaling)
    }
    if not isinstance(method, str) or method not in known:
        raise ValueError(f"unknown method {method!r:.80}")
    calibrator = known[method](**_decode_all(known[method], document["options"], "options"))
    calibrator.check_options()
    return calibrator


def _rebuild_nested(document: dict[str, Json], kind: Nested) -> Calibrator:
    """Return a calibrator inside another; an option may be one that is not fitted."""
    if kind.method not in (None, document["method"]):
        raise ValueError(f"method is {document['method']!r:.80}, where it must be {kind.method}")
    return _rebuild(document) if "fitted" in document else _rebuild_options(document)


def _fields(kind: type, *, init: bool) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.init == init]


def _encode_all(calibrator: Calibrator, *, init: bool) -> dict[str, Json]:
    kind = type(calibrator)
    return {
        field.name: _encode(getattr(calibrator, field.name), kind_of(field, kind.__name__))
        for field in _fields(kind, init=init)
    }


def _encode(value: object, kind: Stored | None = None) -> Json:
    options = kind.kinds if isinstance(kind, Either) else (kind,)
    for option in options:
        if isinstance(option, Written) and value is not None:
            return option.write(value)
    if isinstance(value, Calibrator):
        return _describe(value) if value.is_fitted else _describe_options(value)
    if isinstance(value, np.ndarray):
        return encode_array(value)
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value


def _decode_all(kind: type, document: Json, where: str) -> dict[str, Any]:
    """Return the options ("options", "fit") or the fitted values of a class, each checked."""
    own = _fields(kind, init=where != "fitted")
    names = {field.name for field in own}
    if not isinstance(document, dict):
        raise ValueError(f"{where} must hold {sorted(names)}, got {document!r:.80}")
    if set(document) != names:
        raise ValueError(f"{where} must hold {sorted(names)}, got {sorted(document)}")
    return {
        field.name: decode(
            kind_of(field, kind.__name__), document[field.name], field.name, _rebuild_nested
        )
        for field in own
    }
