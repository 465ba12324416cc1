"""Folders with one subfolder of pictures for each class."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets.images import ImageSet
from wildcal._old.vision.datasets.pictures import PictureFiles

PICTURES = (".jpeg", ".jpg", ".png", ".webp", ".bmp")


def image_folder(
    folder: str | Path,
    size: int,
    resize: int | None = None,
    class_names: Sequence[str] | None = None,
    *,
    interpolation: str = "bilinear",
) -> ImageSet:
    """Return the pictures of a folder that has one subfolder for each class.

    Parameters
    ----------
    folder
        `<class>/<picture>`: .jpeg, .jpg, .png, .webp or .bmp.
    size
        Width and height of the images, in pixels.
    resize
        What the short side is resized to before the center is cut out; `size` by default.
    class_names
        The classes in the order of the classifier's outputs. Each subfolder must be one of them.
        By default the names of the subfolders, sorted. `classes` are those that have a subfolder.
    interpolation
        How pictures are resized: "nearest", "bilinear", "bicubic" or "lanczos".
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} was not found; give a folder with one folder per class.")
    found = subfolders(folder)
    if not found:
        raise FileFormatError(f"{folder} must hold one folder for each class, and holds no folder.")
    names = tuple(found if class_names is None else class_names)
    labels = {name: k for k, name in enumerate(names)}
    if len(labels) != len(names):
        raise ValueError("class_names must differ from each other.")
    unknown = [name for name in found if name not in labels]
    if unknown:
        raise FileFormatError(
            f"{folder / unknown[0]} must be named after one of the {len(names)} classes."
        )
    chosen = {name: labels[name] for name in found}
    return labeled(
        folder.resolve().name,
        folder,
        chosen,
        names,
        size,
        size if resize is None else resize,
        interpolation=interpolation,
    )


def labeled(
    name: str,
    folder: Path,
    labels: Mapping[str, int],
    class_names: tuple[str, ...],
    size: int,
    resize: int,
    *,
    interpolation: str = "bilinear",
    all_classes: bool = False,
) -> ImageSet:
    """Return the pictures of some subfolders, whose labels are given.

    The set is made of those classes only, unless it is said to be made of all.
    """
    files: list[str] = []
    y: list[int] = []
    for subfolder, label in labels.items():
        pictures = pictures_in(folder / subfolder)
        if not pictures:
            raise FileFormatError(
                f"{folder / subfolder} must hold pictures ({', '.join(PICTURES)}), and holds none."
            )
        files += [f"{subfolder}/{picture}" for picture in pictures]
        y += [label] * len(pictures)
    classes = range(len(class_names)) if all_classes else sorted(set(labels.values()))
    return PictureFiles(
        name=name,
        folder=folder,
        files=tuple(files),
        labels=np.array(y, np.int64),
        class_names=class_names,
        classes=np.array(classes, np.int64),
        size=size,
        resize=resize,
        interpolation=interpolation,
    )


def subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted; hidden ones are left out."""
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))


def pictures_in(folder: Path) -> list[str]:
    """Return the names of the pictures in a folder, sorted; hidden ones are left out."""
    with os.scandir(folder) as entries:
        return sorted(
            e.name
            for e in entries
            if e.name.lower().endswith(PICTURES) and not e.name.startswith(".") and e.is_file()
        )
