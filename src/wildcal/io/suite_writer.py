"""Write a suite split by split, so that an interrupted run continues where it stopped."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.core.labels import OOD_LABEL
from wildcal.core.validation import check_choice, check_distances, check_input, check_labels
from wildcal.io.atomic import atomic_write
from wildcal.io.suite import Suite, array_fields, rounded
from wildcal.io.suite_manifest import DTYPES, MANIFEST, SOURCE, Manifest, SplitInfo
from wildcal.version import __version__

_SAME: Final = ("class_names", "input", "model", "data", "seed", "versions")


class SuiteWriter:
    """Write the splits of one model to a folder.

    A process that is killed leaves a valid suite of the splits finished so far; the next writer
    for the folder continues. Use one writer for a folder at a time.

    Parameters
    ----------
    folder
        Made if it does not exist. A suite in it must have the same model, data, seed, versions
        and classes.
    class_names
        In the order of the columns.
    input
        Kind of the scores: "logits" or "log_proba".
    model, data
        Free descriptions, of plain JSON values.
    seed, versions
        Seed and software versions of the extraction. Default of `versions`: that of wildcal.
    dtype
        How logits are stored: "float16", "float32" or "float64".
    knn
        Describes `knn_distances`: "layers" is a list of {"name": ..., "n_features": ...}.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> logits, y = [[0.0, 2.0], [3.0, 1.0]], [1, 0]
    >>> with TemporaryDirectory() as folder:
    ...     writer = SuiteWriter(folder, class_names=["head", "tail"])
    ...     writer.add("validation", logits, y, role="calibration")
    ...     writer.add("test", logits, y)
    ...     writer.add("fog-3", logits, y, corruption="fog", severity=3)
    ...     writer.add("night", logits, y, domain="night")
    ...     writer.add("dice", logits)  # OOD samples have no label
    ...     writer.finish()
    ...     [(split.name, split.domain) for split in Suite.open(folder).test]
    [('test', 'source'), ('fog-3', 'fog-3'), ('night', 'night'), ('dice', None)]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        class_names: Sequence[str],
        input: str = "logits",
        model: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        versions: Mapping[str, str] | None = None,
        dtype: str = "float32",
        knn: Mapping[str, Any] | None = None,
    ) -> None:
        check_choice("dtype", dtype, DTYPES)
        self.folder, self.dtype = Path(folder), dtype
        self._manifest = Manifest(
            class_names=tuple(map(str, class_names)),
            input=input,
            model=dict(model or {}),
            data=dict(data or {}),
            seed=seed,
            versions={"wildcal": __version__} if versions is None else dict(versions),
            knn=None if knn is None else dict(knn),
        )
        self._manifest.to_json()  # raises for values that JSON does not have
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / MANIFEST).exists():
            self._continue(knn)
        elif any(self.folder.glob("*/*.npy")):
            raise InputError(
                f"folder must be empty or a suite, got {folder} with other arrays.", "folder"
            )
        self._write(self._manifest)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the splits written so far."""
        return tuple(split.name for split in self._manifest.splits)

    def done(self, name: str, *, n_samples: int | None = None, knn_distances: bool = False) -> bool:
        """Return whether a split is written, also its distances if asked for, and undamaged."""
        if name not in self.names:
            return False
        split = Suite(self.folder, self._manifest).split(name)
        if n_samples not in (None, split.n_samples):
            return False
        if knn_distances and "knn_distances" not in split.info.arrays:
            return False
        try:
            split.verify()
        except FileFormatError:
            return False
        return True

    def add(
        self,
        name: str,
        logits: ArrayLike,
        y: ArrayLike | None = None,
        *,
        role: str = "test",
        domain: str | None = SOURCE,
        corruption: str | None = None,
        severity: int | None = None,
        knn_distances: ArrayLike | None = None,
    ) -> None:
        """Write one split, instead of one with the same name.

        Parameters
        ----------
        name
            Letters, digits and ``. _ -``.
        logits
            Shape (n_samples, n_classes).
        y
            Class indices of shape (n_samples,); None or all -1 for OOD samples.
        role
            "calibration" or "test".
        domain
            "source" or the name of a shifted domain. Default with a corruption: NAME-SEVERITY.
        corruption, severity
            Type and strength 1 to 5 of a corruption, or neither.
        knn_distances
            Squared distances to training samples, shape (n_samples, n_layers).
        """
        n_classes = len(self._manifest.class_names)
        z = check_input(np.asarray(logits), self._manifest.input, n_classes=n_classes)
        labels = np.full(len(z), OOD_LABEL) if y is None else check_labels(y, n_classes)
        if len(labels) != len(z):
            raise InputError(f"y must have shape ({len(z)},), got {labels.shape}.", "y")
        n_ood = int((labels == OOD_LABEL).sum())
        if 0 < n_ood < len(labels):
            raise InputError(
                f"y must be -1 for all samples of a split or for none, got {n_ood} of"
                f" {len(labels)}. Try two splits.",
                "y",
            )
        if n_ood:
            domain = None
        elif corruption is not None and domain == SOURCE:
            domain = f"{corruption}-{severity}"
        arrays: dict[str, NDArray[Any]] = {"logits": rounded(z, self.dtype), "y": labels}
        if knn_distances is not None:
            if self._manifest.knn is None:
                raise InputError("knn must describe the layers of knn_distances.", "knn")
            n_layers = len(self._manifest.knn["layers"])
            distances = check_distances(knn_distances, len(z), n_layers)
            arrays["knn_distances"] = np.ascontiguousarray(distances, self.dtype)
        info = SplitInfo(
            name=name,
            role=role,
            domain=domain,
            corruption=corruption,
            severity=severity,
            **array_fields(arrays),
        )
        self._put(info, arrays)

    def finish(self, order: Sequence[str] | None = None) -> None:
        """Mark the suite as complete, with its splits in the given order."""
        names = self.names if order is None else tuple(order)
        if sorted(names) != sorted(self.names):
            wrong = ", ".join(sorted(set(names) ^ set(self.names)))
            raise InputError(f"order must name every written split once, got {wrong}.", "order")
        by_name = {split.name: split for split in self._manifest.splits}
        splits = tuple(by_name[name] for name in names)
        self._write(replace(self._manifest, splits=splits, complete=True))

    def _continue(self, knn: Mapping[str, Any] | None) -> None:
        """Keep the splits of an earlier run of the same extraction."""
        found = Suite.open(self.folder).manifest
        has_distances = any("knn_distances" in split.arrays for split in found.splits)
        there, here = (json.loads(each.to_json()) for each in (found, self._manifest))
        for name in (*_SAME, "knn") if has_distances and knn is not None else _SAME:
            if there[name] != here[name]:
                raise InputError(
                    f"{name} must be that of the suite in {self.folder}, got another"
                    f"{_difference(there[name], here[name])}. Try another folder.",
                    name,
                )
        for temporary in self.folder.rglob(".*.tmp"):
            temporary.unlink()
        self._manifest = replace(found, knn=found.knn if knn is None else knn, complete=False)

    def _put(self, info: SplitInfo, arrays: Mapping[str, NDArray[Any]]) -> None:
        splits = self._manifest.splits
        position = self.names.index(info.name) if info.name in self.names else len(splits)
        others = tuple(split for split in splits if split.name != info.name)
        if position < len(splits):  # until the arrays are new there is no such split
            self._write(replace(self._manifest, splits=others, complete=False))
        (self.folder / info.name).mkdir(exist_ok=True)
        for key, array in arrays.items():
            with atomic_write(self.folder / info.name / f"{key}.npy", "wb") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
        merged = (*others[:position], info, *others[position:])
        self._write(replace(self._manifest, splits=merged, complete=False))

    def _write(self, manifest: Manifest) -> None:
        text = manifest.to_json()
        with atomic_write(self.folder / MANIFEST) as file:
            file.write(text)
        self._manifest = manifest


def _difference(there: Any, here: Any) -> str:
    """Return the first key in which two descriptions differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            if there.get(key) != here.get(key):
                return f" ({key}: {there.get(key)!r:.60} there, {here.get(key)!r:.60} here)"
    return ""
