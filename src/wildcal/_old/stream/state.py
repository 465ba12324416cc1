"""The state of a stream as one JSON file: whole numbers, sealed with a hash, and no pickle."""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from wildcal._old.calibrators.context import WindowMap
from wildcal._old.calibrators.context.features import LARGEST
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.artifact import describe_file
from wildcal._old.io.files import replacing
from wildcal._old.io.sealed import Document, Json, Kind
from wildcal._old.stream.evidence import Evidence, from_dict, to_dict
from wildcal._old.stream.window import LARGEST_WINDOW, UNIT, Whole

# The largest window takes 6 MB.
_KIND: Final = Kind(
    "wildcal stream state", "stream state", "`Stream.save`", version=1, largest=1 << 24
)
_LARGEST_FEATURE: Final = round(LARGEST / UNIT)
# More rows than any stream will see, and far below 2^63.
_LONGEST: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class State:
    """What a stream needs to go on: its options, and the rows of its window."""

    window: int
    false_alarms: float
    seen: int
    rows: Whole
    """Features, probability and class of each row, the oldest first, shape (features + 2, n)."""
    filled: Whole | None
    sequential: tuple[float, Evidence] | None = None
    """Rate of false alarms and evidence of the sequential alarm, where there is one."""


def write_state(path: str | Path, state: State, calibrator: WindowMap) -> None:
    """Write the state of a stream to a file, whole or not at all."""
    columns = (*calibrator.features, "probability", "class")
    more: Document = {}
    if state.sequential is not None:
        rate, evidence = state.sequential
        more["sequential"] = {"false_alarms_per_100k": rate, **to_dict(evidence)}
    document = _KIND.seal(
        {
            "calibrator": fingerprint(calibrator),
            "window": state.window,
            "false_alarms": state.false_alarms,
            "seen": state.seen,
            "filled": None if state.filled is None else state.filled.tolist(),
            **dict(zip(columns, state.rows.tolist(), strict=True)),
            **more,
        }
    )
    with replacing(path, sync=True) as temporary:
        temporary.write_text(json.dumps(document, allow_nan=False) + "\n", "utf-8")


def read_state(path: str | Path, calibrator: WindowMap) -> State:
    """Return the state in a file; damage, or another calibrator, gives a FileFormatError."""
    path = Path(path)
    document = _KIND.read(path)
    if document.get("calibrator") != fingerprint(calibrator):
        raise FileFormatError(
            f"{path} is the state of a stream with another calibrator. Give the calibrator it was"
            " saved with, or begin a new stream."
        )
    try:
        return _state(document, calibrator)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is not a valid stream state: {error}") from error


def fingerprint(calibrator: WindowMap) -> str:
    """Return a SHA-256 of what a calibrator does; other versions of wildcal give the same."""
    document = describe_file(calibrator)
    kept = {name: document[name] for name in ("method", "n_classes", "options", "fitted")}
    fitted = kept["fitted"]
    kept["fitted"] = {name: fitted[name] for name in fitted if name not in calibrator.unread}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def check_window(window: Any) -> None:
    """Raise unless a window has a possible size."""
    whole = isinstance(window, int | np.integer) and not isinstance(window, bool)
    if not whole or not 1 <= window <= LARGEST_WINDOW:
        raise ValueError(
            f"window must be a whole number from 1 to {LARGEST_WINDOW}, got {window!r:.40}."
        )


def check_false_alarms(rate: object) -> None:
    """Raise unless a rate of false alarms is a probability, and neither never nor always."""
    if not isinstance(rate, float) or not (math.isfinite(rate) and 1e-9 <= rate < 1):
        raise ValueError(
            f"false_alarms must be a number from 1e-9 to below 1, such as 0.01, got {rate!r:.40}."
        )


def check_per_100k(rate: object) -> None:
    """Raise unless a number of false alarms in 100,000 rows is one that can be kept."""
    good = isinstance(rate, int | float) and not isinstance(rate, bool) and 1e-6 <= rate <= 1000
    if not good:
        raise ValueError(
            "false_alarms_per_100k must be a number from 1e-6 to 1000, such as 1, got"
            f" {rate!r:.40}."
        )


def _state(document: Document, calibrator: WindowMap) -> State:
    window, rate, seen = document["window"], document["false_alarms"], document["seen"]
    check_window(window)
    check_false_alarms(rate)
    (seen,) = _numbers([seen], "seen", 1, 0, _LONGEST)
    n = min(seen, window)
    rows = [
        *(
            _numbers(document[name], name, n, -_LARGEST_FEATURE, _LARGEST_FEATURE)
            for name in calibrator.features
        ),
        _numbers(document["probability"], "probability", n, 0, round(1 / UNIT)),
        _numbers(document["class"], "class", n, 0, calibrator.n_classes_ - 1),
    ]
    filled = None
    if seen >= window:
        most = window * _LARGEST_FEATURE
        several = len(calibrator.features)
        filled = np.array(_numbers(document["filled"], "filled", several, -most, most), np.int64)
    elif document["filled"] is not None:
        raise ValueError("filled must be null before the window is full.")
    sequential = document.get("sequential")
    if sequential is not None:
        per_100k = sequential["false_alarms_per_100k"]
        check_per_100k(per_100k)
        sequential = (per_100k, from_dict(sequential))
    kept = np.array(rows, np.int64).reshape(len(rows), n)
    return State(window, rate, seen, kept, filled, sequential)


def _numbers(values: Json, name: str, n: int, low: int, high: int) -> list[int]:
    """Return n whole numbers in a range; raise a ValueError for anything else."""
    if not isinstance(values, list) or len(values) != n:
        raise ValueError(f"{name} must be a list of {n}.")
    if not all(type(value) is int and low <= value <= high for value in values):
        raise ValueError(f"{name} must be whole numbers from {low} to {high}.")
    return values
