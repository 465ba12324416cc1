"""Pack a suite into one .npz whose bytes depend on its content alone."""

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Logits
from wildcal._old.core.checks import check_choice
from wildcal._old.io.files import replacing
from wildcal._old.io.suite.arrays import (
    coarse_logits,
    content_hash,
    distances_hash,
    npy_header,
    stored_distances,
    stored_labels,
    stored_logits,
)
from wildcal._old.io.suite.files import LARGEST_MEMBER, SuiteFiles
from wildcal._old.io.suite.manifest import DTYPES, MANIFEST, Entry, Manifest, without_distances
from wildcal._old.io.suite.neighbors import (
    SIGNIFICANT_BITS,
    described_ranks,
    keep_ranks,
    no_distances,
    rounded,
)
from wildcal._old.io.suite.read import read_content, verified_distances

# The oldest time a zip archive can hold: a packed suite must not depend on the clock.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def pack_suite(
    files: SuiteFiles,
    manifest: Manifest,
    path: str | Path,
    dtype: str | None = None,
    ranks: Sequence[int] | None = None,
    step: float | None = None,
) -> None:
    """Write the arrays and the manifest to one .npz, where wanted with arrays of another dtype.

    With `ranks`, only the distances to these neighbors are kept; with `step`, logits are rounded to
    its multiples.
    """
    kept = _Distances(files, manifest, dtype, ranks)
    if dtype is not None:
        check_choice("dtype", dtype, DTYPES)
    if Path(path).suffix != ".npz":
        raise ValueError(f"cannot pack into {path}: its name must end in .npz.")
    entries = []
    with replacing(path, sync=True) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for entry in manifest.splits:
            z, y = read_content(files, entry, manifest.n_classes, manifest.neighbors)
            if step is not None:
                z = coarse_logits(z, step)
            if dtype is not None and dtype != entry.dtype:
                z = _converted(z, entry.name, dtype)
            labels = stored_labels(y, len(z), manifest.n_classes, entry.shift)
            new, distances = kept.of(entry)
            new = replace(
                new,
                dtype=z.dtype.name,
                sha256=content_hash(z, labels),
                logits=f"{entry.name}.logits.npy",
                labels=f"{entry.name}.labels.npy",
            )
            _write_array(archive, new.logits, z)
            _write_array(archive, new.labels, labels)
            if distances is not None:
                _write_array(archive, str(new.distances), distances)
            entries.append(new)
        packed = replace(
            manifest,
            splits=tuple(entries),
            neighbors=kept.description(),
            data=manifest.data if step is None else manifest.data | {"logits_step": step},
        )
        # Last, because the hashes in it are known only now.
        _write_member(archive, MANIFEST, packed.to_bytes())


class _Distances:
    """The neighbor distances that are packed: all, those of some ranks, or none."""

    def __init__(
        self,
        files: SuiteFiles,
        manifest: Manifest,
        dtype: str | None,
        ranks: Sequence[int] | None,
    ) -> None:
        self.files, self.neighbors, self.dtype = files, manifest.neighbors, dtype
        self.columns: NDArray[np.int64] | None = None
        self.ranks = None if ranks is None else sorted(set(ranks))
        if self.ranks:
            if self.neighbors is None:
                raise no_distances(str(files.path))
            self.columns = keep_ranks(self.neighbors, self.ranks)

    def of(self, entry: Entry) -> tuple[Entry, NDArray[np.floating[Any]] | None]:
        """Return a split as it will be described, and its distances as they will be stored."""
        if entry.distances is None or self.ranks == []:
            return without_distances(entry), None
        array = verified_distances(self.files, entry, self.neighbors)
        if self.columns is not None:
            array = np.ascontiguousarray(array[:, self.columns])
        if self.dtype is not None:
            values = rounded(array) if self.dtype == "float16" else array
            try:
                array = stored_distances(values, len(array), array.shape[1], self.dtype)
            except ValueError as error:
                raise ValueError(f"split {entry.name}: {error}") from error
        new = replace(
            entry,
            distances=f"{entry.name}.distances.npy",
            distances_dtype=array.dtype.name,
            distances_sha256=distances_hash(array),
        )
        return new, array

    def description(self) -> dict[str, Any] | None:
        """Return what the packed manifest says of them."""
        if self.neighbors is None or self.ranks == []:
            return None
        changes = {} if self.ranks is None else described_ranks(self.neighbors, self.ranks)
        if self.dtype == "float16":
            changes["significant_bits"] = SIGNIFICANT_BITS
        return self.neighbors | changes


def _write_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    content = npy_header(array) + array.tobytes()
    if len(content) > LARGEST_MEMBER:
        raise ValueError(f"{name} is too large to be packed; keep the folder.")
    _write_member(archive, name, content)


def _converted(logits: Logits, name: str, dtype: str) -> Logits:
    try:
        return stored_logits(logits, logits.shape[1], dtype)
    except ValueError as error:
        raise ValueError(f"split {name}: {error}") from error


def _write_member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _NO_TIME)
    info.create_system = 3  # the zip module would write which system it runs on
    info.external_attr = 0o644 << 16
    archive.writestr(info, content, zipfile.ZIP_DEFLATED, compresslevel=9)
