"""Write a suite split by split, so that an interrupted extraction goes on where it stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import OOD_LABEL
from wildcal._old.core.checks import check_choice
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.files import replacing, to_disk
from wildcal._old.io.suite.arrays import (
    content_hash,
    distances_hash,
    npy_header,
    stored_distances,
    stored_labels,
    stored_logits,
)
from wildcal._old.io.suite.files import FolderFiles
from wildcal._old.io.suite.leftovers import (
    refuse_another_source,
    refuse_foreign_arrays,
    refuse_other,
    remove_leftovers,
)
from wildcal._old.io.suite.manifest import (
    DTYPES,
    MANIFEST,
    Entry,
    Manifest,
    check_manifest,
    check_split,
    parse_manifest,
    without_distances,
)
from wildcal._old.io.suite.neighbors import columns
from wildcal._old.io.suite.read import parsed, read_content, read_logits, verified_distances
from wildcal.version import __version__


@final
class SuiteWriter:
    """Write the splits of one network to a folder; what is finished survives an interruption.

    A process killed at any point leaves a valid suite of the splits finished so far. The next
    writer for the folder removes a file that was left half done, goes on, and ends with the same
    bytes as a run that was never interrupted. Use one writer for a folder at a time.

    Parameters
    ----------
    folder
        Made if it is not there. If it holds a suite, that must come from the same network, data,
        seed, versions and classes.
    n_classes, class_names
        The classes, in the order of the columns; one of the two will do.
    network, data
        Free descriptions, of plain JSON values.
    seed
        The seed of whatever was random, such as the corruptions.
    versions
        Package names and their versions; by default that of wildcal.
    dtype
        How logits are stored: float16, float32 or float64.

    Example
    -------
    >>> from tempfile import TemporaryDirectory
    >>> logits, y = [[0.0, 2.0], [3.0, 1.0]], [1, 0]
    >>> with TemporaryDirectory() as folder:
    ...     writer = SuiteWriter(folder, class_names=["head", "tail"])
    ...     writer.add("val", logits, y, role="tune")
    ...     writer.add("test", logits, y)
    ...     writer.add("night", logits, y, shift="covariate")
    ...     writer.add("dice", logits)  # of other classes
    ...     writer.finish()
    ...     writer.names
    ('val', 'test', 'night', 'dice')
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        n_classes: int | None = None,
        class_names: Sequence[str] | None = None,
        network: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        versions: Mapping[str, str] | None = None,
        dtype: str = "float32",
    ) -> None:
        check_choice("dtype", dtype, DTYPES)
        if n_classes is None and class_names is None:
            raise ValueError("give n_classes, or class_names in the order of the columns.")
        if class_names is None:
            class_names = [str(number) for number in range(n_classes or 0)]
        wanted = Manifest(
            network=dict(network or {}),
            data=dict(data or {}),
            seed=seed,
            versions={"wildcal": __version__} if versions is None else dict(versions),
            n_classes=len(class_names) if n_classes is None else n_classes,
            class_names=tuple(class_names),
            complete=False,
            splits=(),
        )
        check_manifest(wanted)
        wanted = parse_manifest(wanted.to_bytes())  # as it will read back: lists for tuples
        self.folder = Path(folder)
        self.dtype = dtype
        self.folder.mkdir(parents=True, exist_ok=True)
        self._files = FolderFiles(self.folder)
        if (self.folder / MANIFEST).exists():
            found = parsed(self._files)
            refuse_another_source(self.folder, found, wanted, dtype)
            self._manifest = found
            kept = {name for e in self._manifest.splits for name in e.files}
            remove_leftovers(self.folder, kept)
        else:
            refuse_foreign_arrays(self.folder)
            remove_leftovers(self.folder, ())
            self._write(wanted)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the splits written so far."""
        return tuple(entry.name for entry in self._manifest.splits)

    @property
    def neighbors(self) -> dict[str, Any] | None:
        """The description of the neighbor distances, as it was written."""
        return self._manifest.neighbors

    def describe(self, *, neighbors: Mapping[str, Any]) -> None:
        """Say what the distances are.

        Plain JSON values. A description is replaced only as long as nothing it describes has been
        written.
        """
        wanted = self.check_description(neighbors=neighbors)
        if wanted != self._manifest:
            self._write(replace(wanted, complete=False))

    def check_description(self, *, neighbors: Mapping[str, Any]) -> Manifest:
        """Return the manifest with a description; raise where `describe` would, writing nothing."""
        wanted = replace(self._manifest, neighbors=dict(neighbors))
        check_manifest(wanted)
        wanted = parse_manifest(wanted.to_bytes())  # as it will read back
        entries = self._manifest.splits
        there, here = self.neighbors, wanted.neighbors
        if here != there and any(entry.distances for entry in entries):
            refuse_other(self.folder, "neighbor distances", there, here)
        return wanted

    def done(self, name: str, *, rows: int | None = None) -> bool:
        """Return whether a split is written and whole: its content hash is compared.

        With `rows`, it must also have as many.
        """
        entry = self._entry(name)
        if entry is None or rows not in (None, entry.rows):
            return False
        try:
            read_content(self._files, entry, self._manifest.n_classes)
        except FileFormatError:
            return False
        return True

    def stored(self, name: str) -> NDArray[np.floating[Any]]:
        """Return the logits of a split as they were written."""
        return read_logits(self._files, self._need(name), self._manifest.n_classes)

    def has_distances(self, name: str) -> bool:
        """Return whether the distances of a split are written and whole."""
        entry = self._entry(name)
        if entry is None or entry.distances is None:
            return False
        try:
            verified_distances(self._files, entry, self.neighbors)
        except FileFormatError:
            return False
        return True

    def add_distances(self, name: str, distances: ArrayLike, *, dtype: str = "float32") -> None:
        """Write the neighbor distances of a split that is there; its logits are not touched.

        Parameters
        ----------
        distances
            Squared distances, shape (rows, ranks * layers): all layers of the first rank, then all
            of the next. `describe` says first which they are.
        dtype
            How they are stored.
        """
        check_choice("dtype", dtype, DTYPES)
        entry = self._need(name)
        if self.neighbors is None:
            raise ValueError("describe(neighbors=...) must say which layers and ranks there are.")
        try:
            array = stored_distances(distances, entry.rows, columns(self.neighbors), dtype)
        except ValueError as error:
            raise ValueError(f"split {name}: {error}") from error
        new = _with_distances(entry, array)
        check_manifest(replace(self._manifest, splits=self._with(new)))
        if entry.distances is not None:
            # Until the array is new there are none, so the manifest forgets it first.
            self._write(
                replace(self._manifest, splits=self._with(without_distances(entry)), complete=False)
            )
        self._write_array(f"{name}.distances.npy", array)
        self._write(replace(self._manifest, splits=self._with(new), complete=False))

    def add(
        self,
        name: str,
        logits: ArrayLike,
        y: ArrayLike | None = None,
        *,
        role: str = "test",
        shift: str | None = None,
        corruption: str | None = None,
        severity: int | None = None,
    ) -> None:
        """Write one split, in place of one with the same name.

        Parameters
        ----------
        name
            Letters, digits and ``. _ -``; it becomes part of file names.
        logits
            Finite, of shape (n_samples, n_classes).
        y
            Labels of shape (n_samples,) in 0..K-1. Rows of other classes have none, or -1.
        role
            "tune" or "test".
        shift
            "none", "covariate" or "semantic" (other classes); by default "semantic" without
            labels, "covariate" with a corruption, and else "none".
        corruption, severity
            The type and strength 1..5 of a corruption, or neither.
        """
        if shift is None:
            shift = "semantic" if y is None else "none" if corruption is None else "covariate"
        if y is None:
            if shift != "semantic":
                raise ValueError(f"split {name}: rows of the classes need labels; give y.")
            y = np.full(len(np.asarray(logits)), OOD_LABEL)
        check_split(name, role, shift, corruption, severity)
        entry = Entry(
            name=name,
            role=role,
            shift=shift,
            corruption=corruption,
            severity=severity,
            rows=0,
            dtype=self.dtype,
            logits=f"{name}.logits.npy",
            labels=f"{name}.labels.npy",
            sha256="",
        )
        try:
            z = stored_logits(logits, self._manifest.n_classes, self.dtype)
            labels = stored_labels(y, len(z), self._manifest.n_classes, shift)
        except ValueError as error:
            raise ValueError(f"split {name}: {error}") from error
        self._put(entry, z, labels)

    def _put(self, entry: Entry, logits: NDArray[Any], labels: NDArray[Any]) -> None:
        """Write the arrays of a split, then the manifest."""
        new = replace(entry, rows=len(logits), sha256=content_hash(logits, labels))
        old = self._entry(entry.name)
        others = tuple(e for e in self._manifest.splits if e.name != entry.name)
        check_manifest(replace(self._manifest, splits=(*others, new)))
        if old is not None:
            # Until all arrays are new the split is none, so the manifest forgets it first.
            self._write(replace(self._manifest, splits=others, complete=False))
            if old.distances is not None:
                (self.folder / old.distances).unlink(missing_ok=True)
        self._write_array(new.logits, logits)
        self._write_array(new.labels, labels)
        self._write(replace(self._manifest, splits=(*others, new), complete=False))

    def finish(self, order: Sequence[str] | None = None) -> None:
        """Put the splits in order, by default as they were added, and mark the suite complete."""
        names = list(self.names if order is None else order)
        missing = sorted(set(names) - set(self.names))
        strange = sorted(set(self.names) - set(names))
        if missing:
            raise ValueError(f"the suite is not complete: {', '.join(missing)} not written yet.")
        if strange or len(set(names)) < len(names):
            raise ValueError(
                "order must name every split once;"
                f" {', '.join(strange) + ' left out' if strange else 'a name occurs twice'}."
            )
        by_name = {entry.name: entry for entry in self._manifest.splits}
        splits = tuple(by_name[name] for name in names)
        # A complete suite survives a power cut: what the manifest names is on disk before it.
        for split in splits:
            for name in filter(None, (split.logits, split.labels, split.distances)):
                to_disk(self.folder / name)
        self._write(replace(self._manifest, splits=splits, complete=True), sync=True)

    def _entry(self, name: str) -> Entry | None:
        return next((e for e in self._manifest.splits if e.name == name), None)

    def _need(self, name: str) -> Entry:
        entry = self._entry(name)
        if entry is None:
            raise ValueError(f"there is no split {name!r} yet; add its logits first.")
        return entry

    def _with(self, new: Entry) -> tuple[Entry, ...]:
        """Return all splits in their order, one of them replaced."""
        return tuple(new if e.name == new.name else e for e in self._manifest.splits)

    def _write(self, manifest: Manifest, *, sync: bool = False) -> None:
        raw = manifest.to_bytes()
        with replacing(self.folder / MANIFEST, sync=sync) as temporary:
            temporary.write_bytes(raw)
        self._manifest = manifest

    def _write_array(self, name: str, array: NDArray[Any]) -> None:
        with replacing(self.folder / name) as temporary, temporary.open("wb") as file:
            file.write(npy_header(array))
            file.write(np.ascontiguousarray(array).data.cast("B"))


def _with_distances(entry: Entry, distances: NDArray[Any]) -> Entry:
    return replace(
        entry,
        distances=f"{entry.name}.distances.npy",
        distances_dtype=distances.dtype.name,
        distances_sha256=distances_hash(distances),
    )
