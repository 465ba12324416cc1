"""ImageNet's validation images and their relatives -C, -R, -A and -Sketch.

Pictures are in folders named by WordNet id. The label of a picture is the position of its id among
the 1000 sorted ids of ILSVRC 2012, which is how published networks number their outputs. Folders
named by that number, 0 to 999, are read too.
"""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from wildcal.core.exceptions import FileFormatError
from wildcal.vision.datasets import find, labeled, pictures_in, subfolders
from wildcal.vision.images import IMAGENET, ImageSet, Preprocess

_URLS: Final = {
    "imagenet-r": "https://github.com/hendrycks/imagenet-r",
    "imagenet-a": "https://github.com/hendrycks/natural-adv-examples",
    "imagenet-sketch": "https://github.com/HaohanWang/ImageNet-Sketch",
}
RELATIVES: Final = tuple(_URLS)
_C_URL: Final = "https://zenodo.org/records/2235448"
_C_GROUPS: Final = ("noise", "blur", "weather", "digital", "extra")
_CLASS: Final = re.compile("n[0-9]{8}|[0-9]{1,3}")
"""A WordNet id or a class index."""


@cache
def imagenet_wnids() -> tuple[str, ...]:
    """Return the WordNet ids of the 1000 classes, in the order of the outputs of networks."""
    text = files("wildcal.vision").joinpath("imagenet_wnids.txt").read_text("ascii")
    return tuple(text.split())


def imagenet(folder: str | Path, preprocess: Preprocess = IMAGENET) -> ImageSet:
    """Return the validation images of ILSVRC 2012, up to 50,000.

    Parameters
    ----------
    folder
        `<wnid>/*.JPEG` or `<class index>/*.JPEG`, or the folder that holds this as `val`.
    preprocess
        How pictures are cropped.
    """
    places = (Path(folder) / "val", Path(folder))
    for place in places:
        if place.is_dir() and any(n.startswith("ILSVRC2012_val_") for n in pictures_in(place)):
            raise FileFormatError(
                f"{place} must hold one folder per WordNet id, got the validation pictures side by"
                " side. Move each into the folder of its class: line k of"
                " ILSVRC2012_validation_ground_truth.txt, in the development kit, is the class"
                " number of picture k, and meta.mat there has the WordNet id of a class number."
            )
    home = find("ImageNet", "https://image-net.org", places, _has_classes)
    return _read("imagenet-val", home, preprocess)


def imagenet_c(
    folder: str | Path, name: str, severity: int, preprocess: Preprocess = IMAGENET
) -> ImageSet:
    """Return ImageNet-C of one corruption and severity.

    The published pictures are already cropped to 224 x 224 pixels: for another crop they are
    resized as a whole.

    Parameters
    ----------
    folder
        `<name>/<severity>/<wnid>/*.JPEG`; the groups of the archives (noise, blur, weather,
        digital, extra) may come before the name.
    name, severity
        One of `wildcal.corruptions.CORRUPTIONS`, 1 to 5.
    preprocess
        Its crop is the size of the images.
    """
    homes = (Path(folder), *(Path(folder) / group for group in _C_GROUPS))
    places = [home / name / str(severity) for home in homes]
    home = find("ImageNet-C", _C_URL, places, _has_classes)
    whole = Preprocess(crop=preprocess.crop, resize=preprocess.crop)
    return _read(f"imagenet-c-{name}-{severity}", home, whole)


def imagenet_relative(name: str, folder: str | Path, preprocess: Preprocess = IMAGENET) -> ImageSet:
    """Return "imagenet-r", "imagenet-a" or "imagenet-sketch", with labels among all 1000 classes.

    Parameters
    ----------
    name
        One of `RELATIVES`.
    folder
        The unpacked folder with one folder per WordNet id, or the folder that holds it.
    preprocess
        How pictures are cropped.
    """
    usual = "sketch" if name == "imagenet-sketch" else name
    places = (Path(folder) / usual, Path(folder))
    return _read(name, find(name, _URLS[name], places, _has_classes), preprocess)


def _read(name: str, home: Path, preprocess: Preprocess) -> ImageSet:
    found, wnids = subfolders(home), imagenet_wnids()
    known = {wnid: k for k, wnid in enumerate(wnids)}
    if not any(folder in known for folder in found):
        known = {str(k): k for k in range(len(wnids))}
    if unknown := [folder for folder in found if folder not in known]:
        raise FileFormatError(
            f"{home / unknown[0]} must be named by a WordNet id of ILSVRC 2012, or all folders by"
            " class indices from 0 to 999."
        )
    labels = {folder: known[folder] for folder in sorted(found, key=known.__getitem__)}
    return labeled(name, home, labels, preprocess, wnids)


def _has_classes(folder: Path) -> bool:
    return folder.is_dir() and any(_CLASS.fullmatch(name) for name in subfolders(folder))
