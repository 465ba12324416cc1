"""ImageNet's validation images and their relatives -C, -R, -A and -Sketch.

All of them keep their pictures in folders named by WordNet id. The label of a picture is the place
of its id among the 1000 sorted ids of ILSVRC 2012, which is how published classifiers number their
outputs. Folders named by that number, 0 to 999, are understood too.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets.corrupted import check_cell
from wildcal._old.vision.datasets.folders import labeled, pictures_in, subfolders
from wildcal._old.vision.datasets.images import ImageSet
from wildcal._old.vision.datasets.places import find

IMAGENET_URL = "https://image-net.org"
IMAGENET_C_URL = "https://zenodo.org/records/2235448"
IMAGENET_R_URL = "https://github.com/hendrycks/imagenet-r"
IMAGENET_A_URL = "https://github.com/hendrycks/natural-adv-examples"
IMAGENET_SKETCH_URL = "https://github.com/HaohanWang/ImageNet-Sketch"
_GROUPS = ("noise", "blur", "weather", "digital", "extra")


@cache
def imagenet_wnids() -> tuple[str, ...]:
    """Return the WordNet ids of the 1000 classes, in the order of a classifier's outputs."""
    text = files("wildcal._old.vision.datasets").joinpath("imagenet_wnids.txt").read_text("ascii")
    return tuple(text.split())


def imagenet(
    folder: str | Path,
    size: int = 224,
    *,
    resize: int | None = None,
    interpolation: str = "bilinear",
) -> ImageSet:
    """Return the 50000 validation images of ILSVRC 2012, or those of them that are there.

    Parameters
    ----------
    folder
        `<wnid>/*.JPEG` or `<number of the class>/*.JPEG`, or the folder that holds this as `val`.
    size
        Width and height of the images, in pixels.
    resize
        What the short side is resized to before the center is cut out; 256 / 224 of `size` by
        default.
    interpolation
        How: "nearest", "bilinear", "bicubic" or "lanczos".
    """
    folder = Path(folder)
    places = (folder / "val", folder)
    for place in places:
        if place.is_dir() and not _has_classes(place) and _is_flat(place):
            raise FileFormatError(
                f"{place} must hold one folder for each WordNet id, and holds the validation"
                " pictures side by side. Move each into the folder of its class: line k of"
                " ILSVRC2012_validation_ground_truth.txt, in the development kit, is the class"
                " number of picture k, and meta.mat there gives the WordNet id of a class number."
            )
    home = find("ImageNet", IMAGENET_URL, places, _has_classes)
    return _labeled("imagenet-val", home, size, resize, interpolation, all_classes=True)


def imagenet_c(folder: str | Path, name: str, severity: int, size: int = 224) -> ImageSet:
    """Return one cell of ImageNet-C: 50000 images with one corruption at one severity.

    The published pictures are already cut to 224 x 224 pixels, so nothing is cut off here; for
    another `size` they are resized.

    Parameters
    ----------
    folder
        `<name>/<severity>/<wnid>/*.JPEG`; the groups of the archives (noise, blur, weather,
        digital, extra) may come before the name.
    name
        One of `wildcal._old.shift.CORRUPTIONS`.
    severity
        1 to 5.
    size
        Width and height of the images, in pixels.
    """
    severity = check_cell(name, severity)
    folder = Path(folder)
    homes = (folder, *(folder / group for group in _GROUPS))
    places = [home / name / str(severity) for home in homes]
    home = find("ImageNet-C", IMAGENET_C_URL, places, _has_classes)
    cell = f"imagenet-c-{name}-{severity}"
    return _labeled(cell, home, size, size, "bilinear", all_classes=True)


def imagenet_r(
    folder: str | Path,
    size: int = 224,
    *,
    resize: int | None = None,
    interpolation: str = "bilinear",
) -> ImageSet:
    """Return ImageNet-R: 30000 renditions (art, cartoons, toys) of 200 of the 1000 classes.

    Parameters
    ----------
    folder
        `imagenet-r`, with one folder for each WordNet id, or the folder that holds it.
    size, resize, interpolation
        As for `imagenet`.
    """
    home = find("ImageNet-R", IMAGENET_R_URL, _places(folder, "imagenet-r"), _has_classes)
    return _labeled("imagenet-r", home, size, resize, interpolation, all_classes=False)


def imagenet_a(
    folder: str | Path,
    size: int = 224,
    *,
    resize: int | None = None,
    interpolation: str = "bilinear",
) -> ImageSet:
    """Return ImageNet-A: 7500 photographs of 200 classes that ResNet-50 got wrong.

    Parameters
    ----------
    folder
        `imagenet-a`, with one folder for each WordNet id, or the folder that holds it.
    size, resize, interpolation
        As for `imagenet`.
    """
    home = find("ImageNet-A", IMAGENET_A_URL, _places(folder, "imagenet-a"), _has_classes)
    return _labeled("imagenet-a", home, size, resize, interpolation, all_classes=False)


def imagenet_sketch(
    folder: str | Path,
    size: int = 224,
    *,
    resize: int | None = None,
    interpolation: str = "bilinear",
) -> ImageSet:
    """Return ImageNet-Sketch: 50889 black and white sketches of all 1000 classes.

    Parameters
    ----------
    folder
        `sketch`, with one folder for each WordNet id, or the folder that holds it.
    size, resize, interpolation
        As for `imagenet`.
    """
    places = _places(folder, "sketch")
    home = find("ImageNet-Sketch", IMAGENET_SKETCH_URL, places, _has_classes)
    return _labeled("imagenet-sketch", home, size, resize, interpolation, all_classes=True)


def _places(folder: str | Path, name: str) -> tuple[Path, Path]:
    return Path(folder) / name, Path(folder)


def _labeled(
    name: str,
    home: Path,
    size: int,
    resize: int | None,
    interpolation: str,
    *,
    all_classes: bool,
) -> ImageSet:
    wnids = imagenet_wnids()
    labels = _class_numbers(home)
    return labeled(
        name,
        home,
        labels,
        wnids,
        size,
        usual_resize(size) if resize is None else resize,
        interpolation=interpolation,
        all_classes=all_classes,
    )


def _class_numbers(home: Path) -> dict[str, int]:
    """Return the label of each class folder, in the order of the labels."""
    found = subfolders(home)
    known = {wnid: k for k, wnid in enumerate(imagenet_wnids())}
    if any(name in known for name in found):
        what = "one of the 1000 WordNet ids of ILSVRC 2012"
    else:
        known = {str(k): k for k in range(len(known))}
        what = "the number of a class, 0 to 999, as the others are"
    unknown = [name for name in found if name not in known]
    if unknown:
        raise FileFormatError(
            f"{home / unknown[0]} must be named by {what}. Move it elsewhere if it is no class."
        )
    return {name: known[name] for name in sorted(found, key=known.__getitem__)}


def usual_resize(size: int) -> int:
    """Return what the short side is resized to before images of a size are cut out."""
    return round(size * 256 / 224)


def _has_classes(folder: Path) -> bool:
    return folder.is_dir() and any(_is_class(name) for name in subfolders(folder))


def _is_class(name: str) -> bool:
    wnid = len(name) == 9 and name[0] == "n" and name[1:].isdigit()
    return wnid or (name.isascii() and name.isdigit() and len(name) <= 3)


def _is_flat(folder: Path) -> bool:
    return any(name.startswith("ILSVRC2012_val_") for name in pictures_in(folder))
