"""The manifest of a suite: its splits as dataclasses and as JSON (docs/suites.md)."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.core.labels import ClassNames
from wildcal.core.validation import check_choice, check_number

FORMAT: Final = "wildcal suite"
FORMAT_VERSION: Final = 5
MANIFEST: Final = "manifest.json"
SOURCE: Final = "source"
ROLES: Final = ("calibration", "test")
DTYPES: Final = ("float16", "float32", "float64")
# Dtypes of each array of a split.
_ARRAYS: Final = {"logits": DTYPES, "y": ("int64",), "knn_distances": DTYPES}
# Names are parts of paths.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_MAX_SEVERITY: Final = 5


@dataclass(frozen=True, kw_only=True)
class SplitInfo:
    """The description of one split."""

    name: str
    role: str
    domain: str | None
    """"source", the name of a shifted domain, or None for OOD samples."""
    corruption: str | None = None
    severity: int | None = None
    n_samples: int
    arrays: Mapping[str, str]
    """The dtype of each array."""
    sha256: str

    def __post_init__(self) -> None:
        name, domain, severity = self.name, self.domain, self.severity
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                "name must be letters, digits and . _ -, beginning with a letter or digit, got"
                f" {name!r:.80}.",
                "name",
            )
        check_choice("role", self.role, ROLES)
        if domain is not None and not isinstance(domain, str):
            raise InputError(f"domain must be a name or None, got {domain!r:.80}.", "domain")
        if (self.corruption is None) != (severity is None):
            raise InputError("corruption and severity must be given together.", "severity")
        if severity is not None:
            check_number("severity", severity, 1, _MAX_SEVERITY, whole=True)
        if self.corruption is not None and domain == SOURCE:
            raise InputError("domain must not be 'source' for a corruption.", "domain")
        if (
            not {"logits", "y"} <= set(self.arrays) <= set(_ARRAYS)
            or not all(dtype in _ARRAYS[key] for key, dtype in self.arrays.items())
            or type(self.n_samples) is not int
            or self.n_samples < 1
        ):
            raise InputError(f"split {self.name!r} must have samples, logits and y.", "arrays")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The description of a suite."""

    class_names: tuple[str, ...]
    input: str = "logits"
    model: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    knn: Mapping[str, Any] | None = None
    """Description of the distances to training samples: layers, number of neighbors, index."""
    complete: bool = False
    splits: tuple[SplitInfo, ...] = ()

    def __post_init__(self) -> None:
        ClassNames(self.class_names)  # raises unless there are two different names
        names = [split.name.lower() for split in self.splits]  # some file systems ignore case
        if len(set(names)) < len(names):
            raise InputError("name must be new: two splits have the same name.", "name")

    def to_json(self) -> str:
        """Return the manifest as text."""
        document = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}
        try:
            return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise InputError(f"model and data must be plain JSON values: {error}.") from error


def read_manifest(text: bytes | str, where: object) -> Manifest:
    """Return the manifest in a JSON text."""
    try:
        document = json.loads(text)
        version = (document.pop("format", None), document.pop("format_version", None))
        if version[0] != FORMAT or version[1] != FORMAT_VERSION:
            raise FileFormatError(
                f"{where} must be a suite of format version {FORMAT_VERSION}, got {version[1]}."
                " Suites of wildcal 0.1 are not read; extract again."
            )
        splits = tuple(SplitInfo(**split) for split in document.pop("splits"))
        names = tuple(document.pop("class_names"))
        known = {f.name for f in fields(Manifest)}
        if missing := known - {"splits", "class_names"} - set(document):
            raise ValueError(f"it has no {', '.join(sorted(missing))}")
        return Manifest(splits=splits, class_names=names, **document)
    except FileFormatError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"{where} has a damaged manifest: {error}.") from error
