"""Suites: the logits of one model on calibration, test, shifted and OOD splits."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.core.validation import check_choice
from wildcal.io.atomic import atomic_write
from wildcal.io.suite_manifest import (
    DTYPES,
    MANIFEST,
    SOURCE,
    Manifest,
    SplitInfo,
    read_manifest,
)

# Arrays that were decompressed are kept up to this many bytes per suite.
_MAX_CACHED: Final = 1 << 28


class Split:
    """The samples of one split; arrays are read when they are first used."""

    def __init__(self, info: SplitInfo, suite: "Suite") -> None:
        self.info, self._suite = info, suite
        self.name, self.role, self.domain = info.name, info.role, info.domain
        self.corruption, self.severity = info.corruption, info.severity
        self.n_samples = info.n_samples

    def __repr__(self) -> str:
        return f"Split({self.name!r}, {self.role}, domain={self.domain!r}, n={self.n_samples})"

    @property
    def is_source(self) -> bool:
        """Whether the samples are in distribution and of the source domain."""
        return self.domain == SOURCE

    @property
    def is_ood(self) -> bool:
        """Whether the samples are of none of the classes."""
        return self.domain is None

    @property
    def is_shifted(self) -> bool:
        """Whether the samples are in distribution and of another domain than the source."""
        return self.domain not in (None, SOURCE)

    @property
    def logits(self) -> NDArray[Any]:
        """Shape (n_samples, n_classes), read-only; float16 is converted to float32."""
        return self._suite.array(self.info, "logits")

    @property
    def y(self) -> NDArray[np.int64]:
        """Class indices of shape (n_samples,), -1 for OOD samples."""
        return self._suite.array(self.info, "y")

    @property
    def knn_distances(self) -> NDArray[Any] | None:
        """Squared distances to training samples, shape (n_samples, n_layers), or None."""
        if "knn_distances" not in self.info.arrays:
            return None
        return self._suite.array(self.info, "knn_distances")

    def verify(self) -> None:
        """Raise a FileFormatError unless the arrays have the checksum of the manifest."""
        arrays = {name: self._suite.stored(self.info, name) for name in self.info.arrays}
        if split_hash(arrays) != self.info.sha256:
            raise FileFormatError(
                f"{self._suite.path}: split {self.name} is damaged: its checksum does not match."
            )


class Suite:
    """The logits of one model on many splits, from a folder or one .npz.

    Examples
    --------
    >>> from wildcal import suites
    >>> suite = suites.load("pacs-resnet18")
    >>> [split.name for split in suite.test if split.is_shifted]
    ['art', 'cartoon', 'sketch']
    >>> suite.split("sketch").logits.shape
    (3929, 7)
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.class_names, self.input = manifest.class_names, manifest.input
        self.n_classes = len(manifest.class_names)
        self.model, self.data = manifest.model, manifest.data
        self.seed, self.versions = manifest.seed, manifest.versions
        self.knn, self.complete = manifest.knn, manifest.complete
        self.splits = tuple(Split(info, self) for info in manifest.splits)
        self._archive: ZipFile | None = None
        self._cached: dict[str, NDArray[Any]] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Return the suite in a folder or .npz; an unfinished one has the splits written so far."""
        path = Path(path)
        if not path.exists():
            raise FileFormatError(f"{path} does not exist.")
        try:
            if path.is_dir():
                text = (path / MANIFEST).read_bytes()
            else:
                with ZipFile(path) as archive:
                    text = archive.read(MANIFEST)
        except Exception as error:  # of a library that reads another or a damaged file
            raise FileFormatError(
                f"{path} must be a suite: a folder or .npz with {MANIFEST}."
            ) from error
        return cls(path, read_manifest(text, path))

    def __repr__(self) -> str:
        state = "" if self.complete else ", unfinished"
        return f"Suite({str(self.path)!r}, {len(self.splits)} splits{state})"

    def __reduce__(self) -> Any:
        return Suite, (self.path, self.manifest)

    @property
    def name(self) -> str:
        """The name of the file or folder."""
        return self.path.stem if self.path.suffix == ".npz" else self.path.name

    @property
    def calibration(self) -> tuple[Split, ...]:
        """The splits to fit on."""
        return tuple(split for split in self.splits if split.role == "calibration")

    @property
    def test(self) -> tuple[Split, ...]:
        """The splits to test on."""
        return tuple(split for split in self.splits if split.role == "test")

    @property
    def layers(self) -> tuple[str, ...]:
        """The columns of `knn_distances`."""
        return tuple(layer["name"] for layer in (self.knn or {}).get("layers", ()))

    def split(self, name: str) -> Split:
        """Return the split with a name."""
        names = [split.name for split in self.splits]
        if name in names:
            return self.splits[names.index(name)]
        near = get_close_matches(name, names, n=5, cutoff=0.5) or names[:5]
        raise InputError(
            f"name must be a split of {self.path}, got {name!r}. Try {', '.join(near) or 'none'}.",
            "name",
        )

    def verify(self, progress: Callable[[int], object] | None = None) -> None:
        """Raise a FileFormatError unless all arrays have the checksums of the manifest.

        `progress` is called with the number of samples of each verified split.
        """
        for split in self.splits:
            split.verify()
            if progress is not None:
                progress(split.n_samples)

    def array(self, info: SplitInfo, name: str) -> NDArray[Any]:
        """Return an array of a split as it is used: float16 converted, values checked."""
        key = f"{info.name}/{name}"
        if key in self._cached:
            return self._cached[key]
        array = self.stored(info, name)
        if array.dtype == np.float16:
            array = array.astype(np.float32)
        if name == "y":
            low, high = (-1, -1) if info.domain is None else (0, self.n_classes - 1)
            if array.min() < low or array.max() > high:
                raise FileFormatError(f"{self.path}: y of {info.name} must lie in [{low}, {high}].")
        array.setflags(write=False)
        kept = sum(other.nbytes for other in self._cached.values())
        if not isinstance(array, np.memmap) and kept + array.nbytes <= _MAX_CACHED:
            self._cached[key] = array
        return array

    def stored(self, info: SplitInfo, name: str) -> NDArray[Any]:
        """Return an array of a split as it is stored; in a folder it is mapped into memory."""
        columns = {"y": (), "logits": (self.n_classes,), "knn_distances": (len(self.layers),)}
        shape = (info.n_samples, *columns[name])
        member, dtype = f"{info.name}/{name}.npy", np.dtype(info.arrays[name]).newbyteorder("<")
        try:
            if self.path.is_dir():
                array = np.load(self.path / member, mmap_mode="r", allow_pickle=False)
            else:
                self._archive = self._archive or ZipFile(self.path)
                with self._archive.open(member) as file:
                    array = np.lib.format.read_array(file, allow_pickle=False)
            if (array.shape, array.dtype) != (shape, dtype):
                raise ValueError(f"it must be {dtype} {shape}, got {array.dtype} {array.shape}")
        except Exception as error:
            raise FileFormatError(f"{self.path}: {member} cannot be read: {error}.") from error
        return array  # type: ignore[no-any-return]

    def pack(
        self, path: str | os.PathLike[str], *, dtype: str | None = None, step: float | None = None
    ) -> None:
        """Write the suite to one compressed .npz.

        Parameters
        ----------
        path
            The file to write.
        dtype
            Store logits and distances in this type, such as "float16".
        step
            Round logits to multiples of this number, such as 1/8: files become smaller.
            Rounding changes no predicted class.
        """
        if dtype is not None:
            check_choice("dtype", dtype, DTYPES)
        infos = []
        with atomic_write(path, "wb") as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
            for split in self.splits:
                split.verify()
                arrays = {name: self.stored(split.info, name) for name in split.info.arrays}
                arrays["logits"] = rounded(arrays["logits"], dtype, step)
                if "knn_distances" in arrays and dtype is not None:
                    arrays["knn_distances"] = arrays["knn_distances"].astype(dtype)
                for name, array in arrays.items():
                    with archive.open(f"{split.name}/{name}.npy", "w") as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
                infos.append(replace(split.info, **array_fields(arrays)))
            data = dict(self.data) if step is None else {**self.data, "logits_step": step}
            manifest = replace(self.manifest, splits=tuple(infos), data=data)
            with archive.open(MANIFEST, "w") as member:
                member.write(manifest.to_json().encode())


def array_fields(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the fields of `SplitInfo` that describe arrays."""
    return {
        "n_samples": len(arrays["y"]),
        "arrays": {name: arrays[name].dtype.name for name in sorted(arrays)},
        "sha256": split_hash(arrays),
    }


def split_hash(arrays: Mapping[str, NDArray[Any]]) -> str:
    r"""Return the SHA-256 of the arrays of one split.

    For each array, in the order of the names, it covers the line ``NAME DTYPE SHAPE\n``, such as
    ``logits float16 (5000, 10)``, and the values in C order, little-endian.
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data.cast("B"))
    return digest.hexdigest()


def rounded(
    logits: NDArray[Any], dtype: str | None = None, step: float | None = None
) -> NDArray[Any]:
    """Return logits rounded to multiples of `step` and to `dtype`, predicted classes unchanged."""
    stored = logits if step is None else (np.rint(logits / np.float64(step)) * step)
    wanted = np.dtype(dtype or logits.dtype).newbyteorder("<")
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(stored, wanted)
    if (np.isfinite(logits) & ~np.isfinite(stored)).any():
        raise InputError(
            f"dtype must hold the logits, got {wanted.name}. Try a wider one.", "dtype"
        )
    predicted = logits.argmax(axis=1)
    for i in np.flatnonzero(stored.argmax(axis=1) != predicted):
        # Rounding made earlier classes as large as the predicted one.
        ties = np.flatnonzero(stored[i] >= stored[i, predicted[i]])
        ties = ties[ties != predicted[i]]
        below = np.nextafter(stored[i, predicted[i]], stored.dtype.type(-np.inf))
        stored[i, ties] = below
    return stored
