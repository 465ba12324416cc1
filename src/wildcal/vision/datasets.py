"""Readers of published data sets and of folders with one subfolder per class."""

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import FileFormatError
from wildcal.core.validation import check_choice, check_labels, check_number
from wildcal.corruptions.images import PICTURES
from wildcal.vision.images import ArrayImages, ImageSet, Indices, PictureFiles, Preprocess

_CIFAR_URL: Final = "https://www.cs.toronto.edu/~kriz/cifar.html"
_CIFAR_C: Final = {
    "cifar10": ("CIFAR-10-C", "https://zenodo.org/records/2535967"),
    "cifar100": ("CIFAR-100-C", "https://zenodo.org/records/3555552"),
}
_SVHN_URL: Final = "http://ufldl.stanford.edu/housenumbers/"
_TEXTURES_URL: Final = "https://www.robots.ox.ac.uk/~vgg/data/dtd/"
_CIFAR_VALUES: Final = 3 * 32 * 32

CIFAR10_NAMES: Final = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
CIFAR100_NAMES: Final = tuple(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
    bowl boy bridge bus butterfly camel can castle caterpillar cattle
    chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket
    rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()
)
TEXTURE_CLASSES: Final = frozenset(
    """
    banded blotchy braided bubbly bumpy chequered cobwebbed cracked crosshatched crystalline
    dotted fibrous flecked freckled frilly gauzy grid grooved honeycombed interlaced knitted
    lacelike lined marbled matted meshed paisley perforated pitted pleated polka-dotted
    porous potholed scaly smeared spiraled sprinkled stained stratified striped studded
    swirly veined waffled woven wrinkled zigzagged
    """.split()
)
CLASS_NAMES: Final = {"cifar10": CIFAR10_NAMES, "cifar100": CIFAR100_NAMES}


def cifar10(folder: str | Path, part: str) -> ImageSet:
    """Return CIFAR-10: 50,000 training or 10,000 test images of 32 x 32 pixels.

    Parameters
    ----------
    folder
        `cifar-10-batches-bin`, `cifar-10-batches-py`, or the folder that holds one of them; the
        binary version is preferred.
    part
        "train" or "test".
    """
    files = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}
    check_choice("part", part, files)
    folders = ("cifar-10-batches-bin", "cifar-10-batches-py")
    paths = _find_cifar("CIFAR10", Path(folder), folders, files[part])
    return _cifar("cifar10", part, paths, "labels", 1)


def cifar100(folder: str | Path, part: str) -> ImageSet:
    """Return CIFAR-100 with its 100 fine classes.

    Parameters
    ----------
    folder
        `cifar-100-binary`, `cifar-100-python`, or the folder that holds one of them.
    part
        "train" or "test".
    """
    check_choice("part", part, ("train", "test"))
    folders = ("cifar-100-binary", "cifar-100-python")
    paths = _find_cifar("CIFAR100", Path(folder), folders, [part])
    return _cifar("cifar100", part, paths, "fine_labels", 2)


CIFAR: Final[dict[str, Callable[[str | Path, str], ImageSet]]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
}


def cifar_c(dataset: str, folder: str | Path, name: str, severity: int) -> ImageSet:
    """Return the 10,000 images of CIFAR-10-C or CIFAR-100-C of one corruption and severity.

    Parameters
    ----------
    dataset
        "cifar10" or "cifar100".
    folder
        `CIFAR-10-C` or `CIFAR-100-C` with `<name>.npy` and `labels.npy`, or the folder that holds
        it.
    name, severity
        One of `wildcal.corruptions.CORRUPTIONS`, 1 to 5.
    """
    check_number("severity", severity, 1, 5, whole=True)
    title, url = _CIFAR_C[dataset]
    path = find(title, url, [Path(folder) / f"{name}.npy", Path(folder) / title / f"{name}.npy"])
    try:
        images = np.load(path, mmap_mode="r")
        labels = np.load(path.with_name("labels.npy"))
    except ValueError as error:
        raise FileFormatError(f"cannot read {path} and its labels: {error}") from error
    n = len(images) // 5
    if images.shape != (5 * n, 32, 32, 3) or labels.shape != (5 * n,):
        raise FileFormatError(
            f"{path} must have shape (5 n, 32, 32, 3) and as many labels, got {images.shape} and"
            f" {labels.shape}."
        )
    part = slice((severity - 1) * n, severity * n)
    return ArrayImages(
        name=f"{dataset}-c-{name}-{severity}",
        images=images[part],
        labels=check_labels(labels[part], len(CLASS_NAMES[dataset])),
        class_names=CLASS_NAMES[dataset],
    )


def svhn_file(folder: Path) -> Path:
    """Return the MATLAB file of the test images of SVHN."""
    name = "test_32x32.mat"
    return find("SVHN", _SVHN_URL, [folder / name, folder / "svhn" / name])


def svhn(folder: str | Path, preprocess: Preprocess) -> ImageSet:
    """Return the house numbers: 26,032 test images of 32 x 32 pixels.

    Parameters
    ----------
    folder
        The folder with `test_32x32.mat`, or one that holds it as `svhn`.
    preprocess
        Size to which images are resized.
    """
    from scipy.io import loadmat

    path = svhn_file(Path(folder))
    try:
        arrays = loadmat(path, variable_names=["X", "y"])
        images, labels = arrays["X"].transpose(3, 0, 1, 2), arrays["y"].ravel() % 10
    except Exception as error:  # SciPy raises a dozen kinds
        raise FileFormatError(f"cannot read {path} as SVHN: {error}") from error
    return ArrayImages(
        name="svhn-test",
        images=np.ascontiguousarray(images),
        labels=check_labels(labels.astype(np.int64), 10),
        class_names=tuple("0123456789"),
        size=preprocess.crop,
        interpolation=preprocess.interpolation,
    )


def textures(folder: str | Path, preprocess: Preprocess) -> ImageSet:
    """Return Describable Textures (DTD), 5,640 pictures of 47 classes.

    Parameters
    ----------
    folder
        `dtd/images`, `dtd`, or the folder that holds it.
    preprocess
        How pictures are cropped.
    """
    home = Path(folder)
    places = (home / "dtd" / "images", home / "images", home)
    place = find("DTD", _TEXTURES_URL, places, _has_textures)
    return replace(image_folder(place, preprocess), name="textures")


def image_folder(
    folder: str | Path, preprocess: Preprocess, class_names: Sequence[str] | None = None
) -> ImageSet:
    """Return the pictures of a folder that has one subfolder per class.

    Parameters
    ----------
    folder
        `<class>/<picture>`: .jpeg, .jpg, .png, .webp or .bmp.
    preprocess
        How pictures are cropped.
    class_names
        The classes in the order of the outputs of the network. Default: the names of the
        subfolders, sorted.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} was not found; give a folder with one folder per class.")
    found = subfolders(folder)
    known = {name: k for k, name in enumerate(found if class_names is None else class_names)}
    if unknown := [name for name in found if name not in known]:
        raise FileFormatError(
            f"{folder / unknown[0]} must be named after one of the {len(known)} classes."
        )
    labels = {name: known[name] for name in found}
    return labeled(folder.resolve().name, folder, labels, preprocess, tuple(known))


def labeled(
    name: str,
    folder: Path,
    labels: Mapping[str, int],
    preprocess: Preprocess,
    class_names: tuple[str, ...],
) -> PictureFiles:
    """Return the pictures of some subfolders, whose labels are given."""
    files: list[str] = []
    y: list[int] = []
    for subfolder, label in labels.items():
        pictures = pictures_in(folder / subfolder)
        files += [f"{subfolder}/{picture}" for picture in pictures]
        y += [label] * len(pictures)
    if not files:
        raise FileFormatError(
            f"{folder} must hold one folder of pictures ({', '.join(PICTURES)}) per class."
        )
    return PictureFiles(
        name=name,
        folder=folder,
        files=tuple(files),
        labels=np.array(y, np.int64),
        class_names=class_names,
        preprocess=preprocess,
    )


def find(
    title: str, url: str, places: Sequence[Path], good: Callable[[Path], bool] = Path.is_file
) -> Path:
    """Return the first good path; the error lists the places and where the data are published."""
    for path in places:
        if good(path):
            return path
    raise FileNotFoundError(
        f"{title} was not found: looked for {', '.join(map(str, places))}."
        f" It is published at {url}; unpack it and give its folder."
    )


def subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, without hidden ones."""
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))


def pictures_in(folder: Path) -> list[str]:
    """Return the names of the pictures in a folder, sorted, without hidden ones."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_file()]
    return sorted(n for n in names if n.lower().endswith(PICTURES) and not n.startswith("."))


class _CifarUnpickler(pickle.Unpickler):
    """Allow only the names that rebuild an array of bytes."""

    allowed: Final = {
        ("_codecs", "encode"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _find_cifar(title: str, folder: Path, folders: tuple[str, str], files: list[str]) -> list[Path]:
    """Return the files of the binary version or, if there is none, of the Python version."""
    binary = [home / f"{files[0]}.bin" for home in (folder, folder / folders[0])]
    python = [home / files[0] for home in (folder, folder / folders[1])]
    found = find(title, _CIFAR_URL, [*binary, *python])
    return [found.with_name(file + found.suffix) for file in files]


def _cifar(name: str, part: str, paths: list[Path], key: str, label_bytes: int) -> ImageSet:
    parts = [
        _read_binary(path, label_bytes) if path.suffix else _read_python(path, key)
        for path in paths
    ]
    planes, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    class_names = CLASS_NAMES[name]
    if not 0 <= labels.min() <= labels.max() < len(class_names):
        raise FileFormatError(
            f"{paths[0].parent} has wrong labels: {labels.min()} to {labels.max()}."
        )
    images = np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return ArrayImages(name=f"{name}-{part}", images=images, labels=labels, class_names=class_names)


def _read_binary(path: Path, label_bytes: int) -> tuple[NDArray[np.uint8], Indices]:
    """Read records of the label bytes, the fine label last, and 3072 bytes, plane by plane."""
    data = np.fromfile(path, np.uint8)
    size = label_bytes + _CIFAR_VALUES
    if data.size == 0 or data.size % size:
        raise FileFormatError(
            f"{path} must have records of {size} bytes, got {data.size:,} bytes. Unpack the"
            " published archive again."
        )
    records = data.reshape(-1, size)
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


def _read_python(path: Path, key: str) -> tuple[NDArray[np.uint8], Indices]:
    try:
        with path.open("rb") as file:
            content = _CifarUnpickler(file, encoding="latin-1").load()
        content = {k.decode() if isinstance(k, bytes) else k: v for k, v in content.items()}
    except Exception as error:  # a damaged pickle raises a dozen kinds
        raise FileFormatError(
            f"cannot read {path}: {error}. Unpack the published archive again."
        ) from error
    data, labels = np.asarray(content.get("data")), np.asarray(content.get(key))
    if data.dtype != np.uint8 or data.shape != (labels.size, _CIFAR_VALUES):
        raise FileFormatError(f"{path} must hold `data` and as many `{key}`.")
    return data, labels.astype(np.int64)


def _has_textures(folder: Path) -> bool:
    """Return whether a folder has only classes of DTD: all of them or a part."""
    names = subfolders(folder) if folder.is_dir() else []
    return bool(names) and set(names) <= TEXTURE_CLASSES
