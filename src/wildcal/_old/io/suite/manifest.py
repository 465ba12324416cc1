"""The manifest of a suite: what its splits are, in JSON that a person can read.

The same manifest always gives the same bytes: keys are sorted and nothing depends on the clock.
It carries a seal, the SHA-256 of all the rest: a lost split or a changed name is seen as a changed
number is. `parse_manifest` also reads format version 5, which the shipped suites have.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NoReturn, TypeAlias

from wildcal._old.core.checks import check_choice, check_count
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.sealed import digest
from wildcal._old.io.suite import version_5
from wildcal._old.io.suite.neighbors import check_neighbors

FORMAT = "wildcal-suite"
VERSION = 4
MANIFEST = "manifest.json"
ROLES = ("tune", "test", "perturb")
SHIFTS = ("none", "covariate", "semantic")
DTYPES = ("float16", "float32", "float64")
LARGEST_SEVERITY = 5
# A hundred splits and twenty thousand class names stay below one megabyte.
LARGEST_MANIFEST = 1 << 24
# Names become file names, so they hold nothing that some file system reads as a path.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
FILE_NAME = re.compile(
    rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,199}}\.npy|{NAME.pattern}/(logits|y|knn_distances)\.npy",
    re.ASCII,
)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)

_DISTANCES = ("distances", "distances_dtype", "distances_sha256")

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One split as the manifest describes it.

    `logits`, `labels` and `distances` are file names; the last is None where there are no
    distances to the nearest training images.
    """

    name: str
    role: str
    shift: str
    corruption: str | None
    severity: int | None
    rows: int
    dtype: str
    logits: str
    labels: str
    sha256: str
    distances: str | None = None
    distances_dtype: str | None = None
    distances_sha256: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its files."""
        more = () if self.distances is None else (self.distances,)
        return (self.logits, self.labels, *more)

    @property
    def is_version_5(self) -> bool:
        """Whether `sha256` is that of format version 5, which covers all arrays."""
        return "/" in self.logits


def without_distances(entry: Entry) -> Entry:
    """Return a split without its distances."""
    return replace(entry, distances=None, distances_dtype=None, distances_sha256=None)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Where the logits come from, and the list of splits.

    `neighbors` describes the distances to training images, `perturbation` the noise of the
    splits with the role "perturb"; both are None where a suite has no such thing.
    """

    network: dict[str, Json]
    data: dict[str, Json]
    seed: int
    versions: dict[str, str]
    n_classes: int
    class_names: tuple[str, ...]
    complete: bool
    splits: tuple[Entry, ...]
    neighbors: dict[str, Json] | None = None
    perturbation: dict[str, Json] | None = None

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON in UTF-8; raise a ValueError for what JSON cannot hold."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        try:
            # As it will read back, where keys are texts: the seal is taken of that.
            document = json.loads(json.dumps(document, allow_nan=False))
            document["seal"] = digest(document)
            text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
            return f"{text}\n".encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"a manifest must hold plain JSON values ({error}).") from error


def parse_manifest(raw: bytes) -> Manifest:
    """Return the manifest; raise a ValueError that says which field is wrong, and how."""
    if len(raw) > LARGEST_MANIFEST:
        raise ValueError(f"it is larger than {LARGEST_MANIFEST} bytes.")
    try:
        document = json.loads(
            raw.decode(), parse_constant=_refuse_constant, object_pairs_hook=_once_each
        )
    except FileFormatError as error:
        raise ValueError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"it is not whole JSON ({type(error).__name__}); was it cut short?"
        ) from error
    if isinstance(document, dict) and document.get("format") == version_5.FORMAT:
        return _manifest(version_5.as_version_4(document))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"it does not say {FORMAT!r}.")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"version must be {VERSION}, got {_shown(version)}; make the suite again.")
    seal = document.pop("seal", None)
    told = dict(document)
    del document["format"], document["version"]
    manifest = _manifest(document)
    # Last, so that a value that cannot be is told by its name.
    if seal != digest(told):
        raise ValueError("it was changed after it was written (its SHA-256 does not match).")
    return manifest


def _manifest(document: dict[str, Json]) -> Manifest:
    _check_keys(document, Manifest, "the manifest")
    manifest = Manifest(
        network=_typed(document, "network", dict),
        data=_typed(document, "data", dict),
        seed=_typed(document, "seed", int),
        versions=_typed(document, "versions", dict),
        n_classes=_typed(document, "n_classes", int),
        class_names=tuple(_typed(document, "class_names", list)),
        complete=_typed(document, "complete", bool),
        splits=tuple(_entry(entry) for entry in _typed(document, "splits", list)),
        neighbors=_optional(document, "neighbors"),
        perturbation=_optional(document, "perturbation"),
    )
    check_manifest(manifest)
    return manifest


def check_manifest(manifest: Manifest) -> None:
    """Raise a ValueError for the first value that a suite cannot have."""
    check_count("n_classes", manifest.n_classes, least=2)
    check_count("seed", manifest.seed, least=0)
    if not all(isinstance(value, str) for value in manifest.versions.values()):
        raise ValueError("versions must map package names to texts.")
    names = manifest.class_names
    if len(names) != manifest.n_classes or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"class_names must be {manifest.n_classes} texts, one for each class,"
            f" got {len(names)} values."
        )
    check_neighbors(manifest.neighbors)
    for entry in manifest.splits:
        _check_entry(entry)
        if entry.distances is not None and manifest.neighbors is None:
            raise ValueError(f"split {entry.name}: distances need the field neighbors.")
    # Some file systems do not tell large letters from small ones.
    _check_unique("split name", (entry.name.lower() for entry in manifest.splits))
    _check_unique(
        "file name",
        (name.lower() for entry in manifest.splits for name in entry.files),
    )


def check_split(
    name: object, role: object, shift: object, corruption: object, severity: object
) -> None:
    """Raise a ValueError unless these words can describe a split."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(
            "a split's name must be up to 100 letters, digits and . _ - beginning with a letter or"
            f" digit, got {_shown(name)}."
        )
    try:
        check_choice("role", role, ROLES)
        check_choice("shift", shift, SHIFTS)
        if (corruption is None) != (severity is None):
            raise ValueError(
                "corruption and severity must be given together or not at all,"
                f" got {_shown(corruption)} and {_shown(severity)}."
            )
        if corruption is None:
            return
        if not isinstance(corruption, str) or not NAME.fullmatch(corruption):
            raise ValueError(
                f"corruption must be a name such as 'gaussian_blur', got {_shown(corruption)}."
            )
        if type(severity) is not int or not 1 <= severity <= LARGEST_SEVERITY:
            raise ValueError(
                f"severity must be one of 1 to {LARGEST_SEVERITY}, got {_shown(severity)}."
            )
        if shift == "none":
            raise ValueError("shift must be 'covariate' where there is a corruption, got 'none'.")
    except ValueError as error:
        raise ValueError(f"split {name}: {error}") from None


def _check_entry(entry: Entry) -> None:
    check_split(entry.name, entry.role, entry.shift, entry.corruption, entry.severity)
    try:
        check_choice("dtype", entry.dtype, DTYPES)
        if type(entry.rows) is not int or entry.rows < 1:
            raise ValueError(f"rows must be a whole number of at least 1, got {entry.rows!r:.40}.")
        keys = ["logits", "labels"]
        told = [getattr(entry, key) is not None for key in _DISTANCES]
        if any(told):
            if not all(told):
                raise ValueError("distances need distances_dtype and distances_sha256.")
            keys.append("distances")
            check_choice("distances_dtype", entry.distances_dtype, DTYPES)
        for key in keys:
            file = getattr(entry, key)
            if not isinstance(file, str) or not FILE_NAME.fullmatch(file):
                raise ValueError(
                    f"{key} must be the plain name of a .npy file in the suite, got {_shown(file)}."
                )
        for key in ["sha256", *(["distances_sha256"] if any(told) else [])]:
            digits = getattr(entry, key)
            if not isinstance(digits, str) or not _SHA256.fullmatch(digits):
                raise ValueError(f"{key} must be 64 hexadecimal digits, got {_shown(digits)}.")
    except ValueError as error:
        raise ValueError(f"split {entry.name}: {error}") from None


def _entry(document: Json) -> Entry:
    if not isinstance(document, dict):
        raise ValueError(f"a split must be an object, got {_shown(document)}.")
    _check_keys(document, Entry, "a split")
    return Entry(**document)


def _check_keys(document: dict[str, Json], kind: type[Any], what: str) -> None:
    """Raise unless a document has the fields of a class."""
    names = {f.name for f in fields(kind)}
    missing, strange = sorted(names - set(document)), sorted(set(document) - names)
    if missing:
        raise ValueError(f"{what} must have the field {missing[0]!r}.")
    if strange:
        raise ValueError(f"{what} has the unknown field {_shown(strange[0])}.")


def _typed(document: dict[str, Json], key: str, kind: type[Any]) -> Any:
    value = document[key]
    if type(value) is not kind:
        words = {dict: "an object", list: "a list", int: "a whole number", bool: "true or false"}
        raise ValueError(f"{key} must be {words[kind]}, got {_shown(value)}.")
    return value


def _optional(document: dict[str, Json], key: str) -> dict[str, Json] | None:
    found: dict[str, Json] | None = (
        None if document.get(key) is None else _typed(document, key, dict)
    )
    return found


def _check_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the {what} {name!r} occurs twice.")
        seen.add(name)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; where bytes were lost between two of them, they look like one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FileFormatError(f"it gives {_shown(twice)} twice in one object; was it damaged?")
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _shown(value: object) -> str:
    return f"{value!r:.60}"
