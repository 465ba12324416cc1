"""Read the manifest and the splits of a suite, every claim compared with the files."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Labels, Logits
from wildcal._old.core.checks import check_labels
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.suite.arrays import (
    LABEL_TYPES,
    check_distances,
    check_finite,
    check_shift_labels,
    content_hash,
    distances_hash,
)
from wildcal._old.io.suite.files import SuiteFiles, reading
from wildcal._old.io.suite.manifest import MANIFEST, Entry, Manifest, parse_manifest
from wildcal._old.io.suite.neighbors import columns, no_distances
from wildcal._old.io.suite.version_5 import split_hash


def parsed(files: SuiteFiles) -> Manifest:
    """Return the manifest of a suite, its values checked, its arrays not looked at."""
    raw = files.manifest()
    try:
        return parse_manifest(raw)
    except ValueError as error:
        raise FileFormatError(f"{files.path}: {MANIFEST} is not valid: {error}") from error


def check_headers(files: SuiteFiles, manifest: Manifest) -> None:
    """Raise unless every array is there with the type, shape and length that the manifest says."""
    damaged = damaged_headers(files, manifest) | damaged_distances(files, manifest)
    for reason in damaged.values():
        raise FileFormatError(reason)


def damaged_headers(files: SuiteFiles, manifest: Manifest) -> dict[str, str]:
    """Return the splits whose logits or labels are not as the manifest says, with the reason."""
    found: dict[str, str] = {}
    with files.opened():
        for entry in manifest.splits:
            try:
                files.check(entry.logits, _types(entry.dtype), (entry.rows, manifest.n_classes))
                files.check(entry.labels, _label_types(entry), (entry.rows,))
            except FileFormatError as error:
                found[entry.name] = str(error)
    return found


def damaged_distances(files: SuiteFiles, manifest: Manifest) -> dict[str, str]:
    """Return the splits whose distances are not as the manifest says, with the reason.

    Most methods do without them, so such a split is not lost.
    """
    found: dict[str, str] = {}
    with files.opened():
        for entry in manifest.splits:
            if entry.distances is None or manifest.neighbors is None:
                continue
            try:
                shape = (entry.rows, columns(manifest.neighbors))
                files.check(entry.distances, _types(entry.distances_dtype), shape)
            except FileFormatError as error:
                found[entry.name] = str(error)
    return found


def read_logits(files: SuiteFiles, entry: Entry, n_classes: int) -> Logits:
    """Return the logits of a split as they are stored."""
    return files.array(entry.logits, _types(entry.dtype), (entry.rows, n_classes))


def read_labels(files: SuiteFiles, entry: Entry, n_classes: int) -> Labels:
    """Return the labels of a split as int64, their values checked."""
    stored = files.array(entry.labels, _label_types(entry), (entry.rows,))
    with reading(files.path, entry.labels):
        y = check_labels(stored, entry.rows, n_classes, accepts_ood=True)
        check_shift_labels(y, entry.shift)
    return np.array(y)


def read_content(
    files: SuiteFiles, entry: Entry, n_classes: int, neighbors: dict[str, Any] | None = None
) -> tuple[NDArray[np.floating[Any]], Labels]:
    """Return logits and labels of a split, or raise if they are not those it was written with.

    In format version 5 this compares the distances too; `neighbors` describes them.
    """
    logits, y = read_logits(files, entry, n_classes), read_labels(files, entry, n_classes)
    if entry.is_version_5:
        arrays: dict[str, NDArray[Any]] = {"logits": logits, "y": y}
        if entry.distances is not None:
            arrays["knn_distances"] = read_distances(files, entry, neighbors)
        found = split_hash(arrays)
    else:
        found = content_hash(logits, y)
    if found != entry.sha256:
        raise _changed(files, f"split {entry.name}")
    with reading(files.path, entry.logits):
        check_finite(logits)  # a writer refuses such rows, but a file may come from elsewhere
    return logits, y


def read_distances(
    files: SuiteFiles, entry: Entry, neighbors: dict[str, Any] | None
) -> NDArray[np.floating[Any]]:
    """Return the distances of a split as they are stored, one column for each layer and rank."""
    if entry.distances is None or neighbors is None:
        raise no_distances(f"{files.path}: split {entry.name}")
    shape = (entry.rows, columns(neighbors))
    stored = files.array(entry.distances, _types(entry.distances_dtype), shape)
    with reading(files.path, entry.distances):
        check_distances(stored)
    return stored


def verified_distances(
    files: SuiteFiles, entry: Entry, neighbors: dict[str, Any] | None
) -> NDArray[np.floating[Any]]:
    """Return the same, or raise if they are not those the split was written with.

    In format version 5 the hash covers all arrays of a split, and `read_content` compares it.
    """
    stored = read_distances(files, entry, neighbors)
    if not entry.is_version_5 and distances_hash(stored) != entry.distances_sha256:
        raise _changed(files, f"{entry.distances}, the distances of split {entry.name},")
    return stored


def _changed(files: SuiteFiles, what: str) -> FileFormatError:
    return FileFormatError(
        f"{files.path}: {what} was changed after it was written (its SHA-256 does"
        " not match). Extract it again, or restore the file."
    )


def _label_types(entry: Entry) -> tuple[str, ...]:
    return ("<i8",) if entry.is_version_5 else LABEL_TYPES


def _types(dtype: str | None) -> tuple[str]:
    return (np.dtype(dtype).newbyteorder("<").str,)
