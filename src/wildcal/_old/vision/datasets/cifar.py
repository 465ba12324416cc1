"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), from the binary or the Python archive."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_choice
from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets.cifar_names import CIFAR10_NAMES, CIFAR100_NAMES
from wildcal._old.vision.datasets.images import ArrayImages, ImageSet
from wildcal._old.vision.datasets.places import check_size, find, labels_of
from wildcal._old.vision.datasets.unpickle import LARGEST_FILE, read_pickle

Part = Literal["train", "test"]
URL = "https://www.cs.toronto.edu/~kriz/cifar.html"
_PIXELS = 3 * 32 * 32
_COARSE_CLASSES = 20


@dataclass(frozen=True, slots=True)
class _Archive:
    """How one of the two sets is laid out on disk."""

    name: str
    title: str
    class_names: tuple[str, ...]
    binary_folder: str
    python_folder: str
    files: dict[str, tuple[str, ...]]
    binary_names: str
    python_names: str
    label_key: str
    names_key: str
    label_bytes: int


_CIFAR10 = _Archive(
    name="cifar10",
    title="CIFAR-10",
    class_names=CIFAR10_NAMES,
    binary_folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    files={"train": tuple(f"data_batch_{k}" for k in range(1, 6)), "test": ("test_batch",)},
    binary_names="batches.meta.txt",
    python_names="batches.meta",
    label_key="labels",
    names_key="label_names",
    label_bytes=1,
)
_CIFAR100 = _Archive(
    name="cifar100",
    title="CIFAR-100",
    class_names=CIFAR100_NAMES,
    binary_folder="cifar-100-binary",
    python_folder="cifar-100-python",
    files={"train": ("train",), "test": ("test",)},
    binary_names="fine_label_names.txt",
    python_names="meta",
    label_key="fine_labels",
    names_key="fine_label_names",
    label_bytes=2,
)


def cifar10(folder: str | Path, part: Part) -> ImageSet:
    """Return CIFAR-10: 50000 training or 10000 test images of 32 x 32 pixels in 10 classes.

    Parameters
    ----------
    folder
        `cifar-10-batches-bin`, `cifar-10-batches-py`, or the folder that holds one of them. Where
        both are there, the binary version is read.
    part
        "train" or "test".
    """
    return _read(_CIFAR10, Path(folder), part)


def cifar100(folder: str | Path, part: Part) -> ImageSet:
    """Return CIFAR-100: 50000 training or 10000 test images of 32 x 32 pixels in 100 fine classes.

    Parameters
    ----------
    folder
        `cifar-100-binary`, `cifar-100-python`, or the folder that holds one of them. Where both
        are there, the binary version is read.
    part
        "train" or "test".
    """
    return _read(_CIFAR100, Path(folder), part)


def _read(archive: _Archive, folder: Path, part: Part) -> ImageSet:
    check_choice("part", part, ("train", "test"))
    first, *others = archive.files[part]
    places = (
        folder / f"{first}.bin",
        folder / archive.binary_folder / f"{first}.bin",
        folder / first,
        folder / archive.python_folder / first,
    )
    found = find(archive.title, URL, places)
    home, ending = found.parent, found.suffix
    paths = [found, *(find(archive.title, URL, [home / f"{name}{ending}"]) for name in others)]
    _check_names(archive, home, binary=bool(ending))
    read = _read_binary if ending else _read_python
    pieces = [read(archive, path) for path in paths]
    images = np.concatenate([images for images, _ in pieces])
    labels = np.concatenate([labels for _, labels in pieces])
    return ArrayImages(f"{archive.name}-{part}", images, labels, archive.class_names)


Piece = tuple[NDArray[np.uint8], NDArray[np.int64]]


def _read_binary(archive: _Archive, path: Path) -> Piece:
    """Read records of the label bytes and 3072 bytes, plane by plane."""
    record = archive.label_bytes + _PIXELS
    size = check_size(path, LARGEST_FILE)
    if size == 0 or size % record:
        raise FileFormatError(
            f"{path} has {size:,} bytes, which are not whole {archive.title} records of {record}"
            " bytes. Unpack the published archive again."
        )
    records = np.fromfile(path, np.uint8).reshape(-1, record)
    if archive.label_bytes == 2 and records[:, 0].max() >= _COARSE_CLASSES:
        raise FileFormatError(
            f"{path} must have a coarse label below {_COARSE_CLASSES} in the first byte of each"
            f" record, got {records[:, 0].max()}. Are the two labels swapped?"
        )
    fine = records[:, archive.label_bytes - 1]
    labels = labels_of(path, fine, len(records), len(archive.class_names))
    return _to_images(records[:, archive.label_bytes :]), labels


def _read_python(archive: _Archive, path: Path) -> Piece:
    content = read_pickle(path)
    data, values = content.get("data"), content.get(archive.label_key)
    if not isinstance(data, np.ndarray) or not isinstance(values, list):
        raise FileFormatError(
            f"{path} must hold `data` and `{archive.label_key}`, as {archive.title} does,"
            f" got {', '.join(sorted(content))!r:.80}."
        )
    if data.ndim != 2 or data.shape[1] != _PIXELS or len(data) == 0:
        raise FileFormatError(f"{path} must have data of shape (n, {_PIXELS}), got {data.shape}.")
    if not all(type(value) is int for value in values):
        raise FileFormatError(f"{path} has wrong labels: they must be integers.")
    return _to_images(data), labels_of(path, values, len(data), len(archive.class_names))


def _to_images(planes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _check_names(archive: _Archive, home: Path, *, binary: bool) -> None:
    """Raise if the list of class names beside the images has other classes or another order."""
    path = home / (archive.binary_names if binary else archive.python_names)
    if not path.is_file():
        return
    check_size(path, 1 << 16)
    found = path.read_bytes().split() if binary else read_pickle(path).get(archive.names_key)
    if found != [name.encode() for name in archive.class_names]:
        raise FileFormatError(
            f"{path} must name the {len(archive.class_names)} classes of {archive.title} in their"
            " published order, and does not. Unpack the published archive again."
        )
