"""Read a suite: the splits to tune and to test on, and their logits when asked for."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import Labels, Logits
from wildcal._old.core.checks import check_choice
from wildcal._old.io.suite.files import SuiteFiles, suite_files
from wildcal._old.io.suite.manifest import SHIFTS, Entry, Manifest, without_distances
from wildcal._old.io.suite.neighbors import layer_names, no_distances, rank_columns
from wildcal._old.io.suite.pack import pack_suite
from wildcal._old.io.suite.read import (
    check_headers,
    damaged_distances,
    damaged_headers,
    parsed,
    read_content,
    read_labels,
    read_logits,
    verified_distances,
)


@final
@dataclass(frozen=True, slots=True)
class SuiteSplit:
    """The logits and labels of one split, read when asked for."""

    name: str
    role: str
    shift: str
    corruption: str | None
    severity: int | None
    rows: int
    dtype: str
    sha256: str
    n_classes: int
    _entry: Entry = field(repr=False, compare=False)
    _files: SuiteFiles = field(repr=False, compare=False)
    _neighbors: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def logits(self) -> Logits:
        """The logits of shape (rows, n_classes), read-only; float16 is handed out as float32.

        From a folder they are mapped into memory, not read. What had to be decompressed or
        converted is kept for the next time, up to a limit for the whole suite.
        """
        return self._files.keep(
            self._entry.logits,
            lambda: self._working(read_logits(self._files, self._entry, self.n_classes)),
        )

    def _working(self, stored: NDArray[Any]) -> Logits:
        return np.array(stored, np.float32) if self.dtype == "float16" else stored

    @property
    def y(self) -> Labels:
        """The labels of shape (rows,) as int64, read-only; -1 where the shift is semantic."""
        return self._files.keep(
            self._entry.labels, lambda: read_labels(self._files, self._entry, self.n_classes)
        )

    @property
    def has_distances(self) -> bool:
        """Whether distances to the nearest training images are stored."""
        return self._entry.distances is not None

    def distances(self, rank: int | None = None) -> NDArray[np.float32]:
        """Return squared distances to a near training image, one column for each layer.

        They have shape (rows, layers) and are read-only; `Suite.layers` names the columns.

        Parameters
        ----------
        rank
            Which neighbor, 1 for the nearest; by default the k-th, the furthest that was measured.
        """
        if self._neighbors is None or self._entry.distances is None:
            raise no_distances(f"{self._files.path}: split {self.name}")
        part = rank_columns(self._neighbors, rank)

        def read() -> NDArray[np.float32]:
            stored = verified_distances(self._files, self._entry, self._neighbors)
            return np.array(stored[:, part], np.float32)

        return self._files.keep(f"{self._entry.distances}:{part.start}", read)

    def verify(self) -> None:
        """Raise a FileFormatError unless logits and labels are what was written.

        (`distances` compares the distances itself, whenever it reads them.) What was read is kept
        as `logits` keeps it, so that looking first costs no second reading.
        """
        logits, y = read_content(self._files, self._entry, self.n_classes, self._neighbors)
        self._files.keep(self._entry.logits, lambda: self._working(logits))
        self._files.keep(self._entry.labels, lambda: y)

    def _verify_distances(self) -> None:
        if self.has_distances:
            verified_distances(self._files, self._entry, self._neighbors)


@final
class Suite:
    """One network's logits on many splits; made by `Suite.open`."""

    damaged: Mapping[str, str]
    """Splits that `open(partial=True)` left out, each with the reason."""

    def __init__(
        self, files: SuiteFiles, manifest: Manifest, damaged: Mapping[str, str] | None = None
    ) -> None:
        self._files, self._manifest, self.damaged = files, manifest, dict(damaged or {})
        self.path = files.path
        self.network = manifest.network
        self.data = manifest.data
        self.seed = manifest.seed
        self.versions = manifest.versions
        self.n_classes = manifest.n_classes
        self.class_names = manifest.class_names
        self.complete = manifest.complete
        self.neighbors = manifest.neighbors
        self.splits = tuple(
            SuiteSplit(
                name=entry.name,
                role=entry.role,
                shift=entry.shift,
                corruption=entry.corruption,
                severity=entry.severity,
                rows=entry.rows,
                dtype=entry.dtype,
                sha256=entry.sha256,
                n_classes=manifest.n_classes,
                _entry=entry,
                _files=files,
                _neighbors=manifest.neighbors,
            )
            for entry in manifest.splits
        )

    def __repr__(self) -> str:
        state = "" if self.complete else ", unfinished"
        return f"Suite({str(self.path)!r}, {len(self.splits)} splits{state})"

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers whose neighbor distances are stored; empty where there are none."""
        return layer_names(self.neighbors)

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False, partial: bool = False) -> Self:
        """Return the suite in a folder or .npz; any damage gives a FileFormatError.

        The manifest's values are checked, and that every array is there with the type, shape and
        length it says. `verify` reads all arrays and compares their content hashes too. A suite
        whose extraction was interrupted opens with the splits finished so far; its `complete` is
        False.

        With `partial`, splits whose arrays are missing or of the wrong type, shape or length are
        left out and named in `damaged`, and the suite counts as not complete. Where it is their
        distances, splits stay, without distances.
        """
        files = suite_files(path)
        with files.opened():
            return cls._opened(files, verify, partial)

    @classmethod
    def _opened(cls, files: SuiteFiles, verify: bool, partial: bool) -> Self:
        manifest = parsed(files)
        damaged = {}
        if partial:
            damaged = damaged_headers(files, manifest)
            far = damaged_distances(files, manifest)
            whole = tuple(
                without_distances(entry) if entry.name in far else entry
                for entry in manifest.splits
                if entry.name not in damaged
            )
            damaged |= {f"the distances of {name}": text for name, text in far.items()}
            manifest = replace(manifest, splits=whole, complete=manifest.complete and not damaged)
        else:
            check_headers(files, manifest)
        suite = cls(files, manifest, damaged)
        if verify:
            suite.verify()
        return suite

    def opened(self) -> AbstractContextManager[None]:
        """Return a context in which this thread reads many splits at less cost."""
        return self._files.opened()

    def verify(self, progress: Callable[[int], object] | None = None) -> None:
        """Raise a FileFormatError unless every split has the content it was written with.

        `progress` is told the number of rows of each split that was found whole.
        """
        with self.opened():
            for split in self.splits:
                split.verify()
                split._verify_distances()
                if progress is not None:
                    progress(split.rows)

    def split(self, name: str) -> SuiteSplit:
        """Return the split with a name."""
        for split in self.splits:
            if split.name == name:
                return split
        names = [split.name for split in self.splits]
        near = difflib.get_close_matches(name, names, n=5, cutoff=0.5) or names[:5]
        raise ValueError(
            f"{self.path} has no split {name!r}. Near names: {', '.join(near) or 'none'}."
        )

    def tune(
        self,
        shift: str | None = None,
        *,
        corruption: str | None = None,
        severity: int | None = None,
    ) -> list[SuiteSplit]:
        """Return the splits to tune on, where given only of one shift, corruption or severity."""
        return self._select("tune", shift, corruption, severity)

    def tests(
        self,
        shift: str | None = None,
        *,
        corruption: str | None = None,
        severity: int | None = None,
    ) -> list[SuiteSplit]:
        """Return the splits to test on, where given only of one shift, corruption or severity."""
        return self._select("test", shift, corruption, severity)

    def _select(
        self, role: str, shift: str | None, corruption: str | None, severity: int | None
    ) -> list[SuiteSplit]:
        if shift is not None:
            check_choice("shift", shift, SHIFTS)
        return [
            split
            for split in self.splits
            if split.role == role
            and shift in (None, split.shift)
            and corruption in (None, split.corruption)
            and severity in (None, split.severity)
        ]

    def pack(
        self,
        path: str | Path,
        *,
        dtype: str | None = None,
        ranks: Sequence[int] | None = None,
        step: float | None = None,
    ) -> None:
        """Write the suite to one compressed .npz, the same bytes for the same suite.

        Parameters
        ----------
        path
            The file to write; its name ends in .npz.
        dtype
            Store logits in this type, such as "float16" to halve the size, with new hashes.
            Logits that it cannot hold are refused. By default each split keeps its own.
            Neighbor distances follow; as float16 they are rounded to 7 significant bits, an error
            below 0.8 % (above 1e-5), because they compress better so.
        ranks
            Keep the distances to these neighbors only, such as [50]; none of them if empty.
        step
            Round logits to multiples of this power of two, such as 1/8, which makes suites of many
            classes smaller by almost a half. Every predicted class stays; `data` of the packed
            suite says it as `logits_step`. By default nothing is rounded.
        """
        with self.opened():
            pack_suite(self._files, self._manifest, path, dtype, ranks, step)
