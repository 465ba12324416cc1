"""The state of a monitor, and its JSON file."""

import hashlib
import json
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from wildcal.core.exceptions import FileFormatError
from wildcal.io.artifact import encode
from wildcal.io.atomic import atomic_write
from wildcal.monitor.drift import DriftState
from wildcal.monitor.labels import DelayedLabels
from wildcal.monitor.ring import Ring

FORMAT: Final = "wildcal monitor"
FORMAT_VERSION: Final = 1


@dataclass
class MonitorState:
    """Statistics of a stream."""

    buckets: Ring
    drift: DriftState
    labels: DelayedLabels

    def merged(self, other: "MonitorState") -> "MonitorState":
        """Return the state of two streams together."""
        return MonitorState(
            self.buckets.merged(other.buckets),
            self.drift.merged(other.drift),
            self.labels.merged(other.labels),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        document: dict[str, Any] = _plain(self)
        return document

    def restored(self, document: dict[str, Any], expected: str, path: str | Path) -> Self:
        """Return a state of the same shapes from the result of `to_dict`."""
        if document.get("calibrator") != expected:
            raise FileFormatError(
                f"{path} is of another calibrator or accuracy estimator. Try those it was saved"
                " with, or a new state."
            )
        try:
            new: Self = _filled(self, document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(f"{path} is not a valid monitor state: {error}") from error
        return new


def write_state(path: str | Path, document: dict[str, Any]) -> None:
    """Write a document with its checksum, to a temporary name first."""
    payload = _payload(document)
    digest = hashlib.sha256(payload.encode()).hexdigest()
    head = json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION, "sha256": digest})
    with atomic_write(path) as file:
        file.write(f'{head[:-1]}, "state": {payload}}}\n')


def read_state(path: str | Path) -> dict[str, Any]:
    """Return the document of a file; FileFormatError if it is damaged."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        form, document = (found["format"], found["format_version"]), found["state"]
        payload, digest = _payload(document), found["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a monitor state: {error}") from error
    if form != (FORMAT, FORMAT_VERSION):
        raise FileFormatError(f"{path} is not a monitor state of this version of wildcal.")
    if hashlib.sha256(payload.encode()).hexdigest() != digest:
        raise FileFormatError(f"{path} is damaged: its checksum does not match its content.")
    checked: dict[str, Any] = document
    return checked


def _payload(document: Any) -> str:
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def stream_file(folder: Path, model: str, stream: str) -> Path:
    """Return the file of a stream of a server: a hash, so nothing in a request names a file."""
    return folder / f"{hashlib.sha256(f'{model}/{stream}'.encode()).hexdigest()}.json"


def fingerprint(*parts: Any) -> str:
    """Return a SHA-256 of calibrator and estimator."""
    document = [None if part is None else encode(part) for part in parts]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.copy() if isinstance(value, dict | list) else value


def _filled(template: Any, document: Any) -> Any:
    """Return values of the types and shapes of a template."""
    if is_dataclass(template) and not isinstance(template, type):
        own = {f.name: getattr(template, f.name) for f in fields(template)}
        return type(template)(**{name: _filled(old, document[name]) for name, old in own.items()})
    if isinstance(template, np.ndarray):
        array = np.asarray(document, dtype=template.dtype)
        if array.shape != template.shape or not (np.isfinite(array) & (array >= 0)).all():
            raise ValueError(f"numbers must be finite, not negative and of shape {template.shape}")
        return array
    return type(template)(document)
