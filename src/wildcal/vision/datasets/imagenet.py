"""ImageNet's validation images and their relatives -C, -R, -A and -Sketch.

All of them keep their pictures in folders named by WordNet id. The label of a picture is the place
of its id among the 1000 sorted ids of ILSVRC 2012, which is how published classifiers number their
outputs.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from wildcal.core.errors import FileFormatError
from wildcal.vision.datasets.corrupted import check_cell
from wildcal.vision.datasets.folders import labelled, pictures_in, subfolders
from wildcal.vision.datasets.images import ImageSet
from wildcal.vision.datasets.places import find

IMAGENET_URL = "https://image-net.org"
IMAGENET_C_URL = "https://zenodo.org/records/2235448"
IMAGENET_R_URL = "https://github.com/hendrycks/imagenet-r"
IMAGENET_A_URL = "https://github.com/hendrycks/natural-adv-examples"
IMAGENET_SKETCH_URL = "https://github.com/HaohanWang/ImageNet-Sketch"
_GROUPS = ("noise", "blur", "weather", "digital", "extra")


@cache
def imagenet_wnids() -> tuple[str, ...]:
    """Return the WordNet ids of the 1000 classes, in the order of a classifier's outputs."""
    text = files("wildcal.vision.datasets").joinpath("imagenet_wnids.txt").read_text("ascii")
    return tuple(text.split())


def imagenet(folder: str | Path, size: int = 224) -> ImageSet:
    """Return the 50000 validation images of ILSVRC 2012.

    Parameters
    ----------
    folder
        `<wnid>/*.JPEG`, or the folder that holds this as `val`.
    size
        Width and height of the images, in pixels. The short side is resized to 256 / 224 of it
        before the centre is cut out.
    """
    folder = Path(folder)
    places = (folder / "val", folder)
    for place in places:
        if place.is_dir() and not _has_wnids(place) and _is_flat(place):
            raise FileFormatError(
                f"{place} must hold one folder for each WordNet id, and holds the validation"
                " pictures side by side. Move each into the folder of its class: line k of"
                " ILSVRC2012_validation_ground_truth.txt, in the development kit, is the class"
                " number of picture k, and meta.mat there gives the WordNet id of a class number."
            )
    home = find("ImageNet", IMAGENET_URL, places, _has_wnids)
    return _labelled("imagenet-val", home, size, usual_resize(size), all_classes=True)


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
        One of `wildcal.shift.CORRUPTIONS`.
    severity
        1 to 5.
    size
        Width and height of the images, in pixels.
    """
    severity = check_cell(name, severity)
    folder = Path(folder)
    homes = (folder, *(folder / group for group in _GROUPS))
    places = [home / name / str(severity) for home in homes]
    home = find("ImageNet-C", IMAGENET_C_URL, places, _has_wnids)
    return _labelled(f"imagenet-c-{name}-{severity}", home, size, size, all_classes=True)


def imagenet_r(folder: str | Path, size: int = 224) -> ImageSet:
    """Return ImageNet-R: 30000 renditions (art, cartoons, toys) of 200 of the 1000 classes.

    Parameters
    ----------
    folder
        `imagenet-r`, with one folder for each WordNet id, or the folder that holds it.
    size
        Width and height of the images, in pixels.
    """
    return _relative("ImageNet-R", IMAGENET_R_URL, Path(folder), "imagenet-r", size)


def imagenet_a(folder: str | Path, size: int = 224) -> ImageSet:
    """Return ImageNet-A: 7500 photographs of 200 classes that ResNet-50 got wrong.

    Parameters
    ----------
    folder
        `imagenet-a`, with one folder for each WordNet id, or the folder that holds it.
    size
        Width and height of the images, in pixels.
    """
    return _relative("ImageNet-A", IMAGENET_A_URL, Path(folder), "imagenet-a", size)


def imagenet_sketch(folder: str | Path, size: int = 224) -> ImageSet:
    """Return ImageNet-Sketch: 50889 black and white sketches of all 1000 classes.

    Parameters
    ----------
    folder
        `sketch`, with one folder for each WordNet id, or the folder that holds it.
    size
        Width and height of the images, in pixels.
    """
    folder = Path(folder)
    home = find("ImageNet-Sketch", IMAGENET_SKETCH_URL, (folder / "sketch", folder), _has_wnids)
    return _labelled("imagenet-sketch", home, size, usual_resize(size), all_classes=True)


def _relative(title: str, url: str, folder: Path, name: str, size: int) -> ImageSet:
    home = find(title, url, (folder / name, folder), _has_wnids)
    return _labelled(name, home, size, usual_resize(size), all_classes=False)


def _labelled(name: str, home: Path, size: int, resize: int, *, all_classes: bool) -> ImageSet:
    wnids = imagenet_wnids()
    known = {wnid: k for k, wnid in enumerate(wnids)}
    found = subfolders(home)
    unknown = [wnid for wnid in found if wnid not in known]
    if unknown:
        raise FileFormatError(
            f"{home / unknown[0]} must be named by one of the 1000 WordNet ids of ILSVRC 2012."
            " Move it elsewhere if it is no class."
        )
    labels = {wnid: known[wnid] for wnid in found}
    return labelled(name, home, labels, wnids, size, resize, all_classes=all_classes)


def usual_resize(size: int) -> int:
    """Return what the short side is resized to before images of a size are cut out."""
    return round(size * 256 / 224)


def _has_wnids(folder: Path) -> bool:
    return folder.is_dir() and any(_is_wnid(name) for name in subfolders(folder))


def _is_wnid(name: str) -> bool:
    return len(name) == 9 and name[0] == "n" and name[1:].isdigit()


def _is_flat(folder: Path) -> bool:
    return any(name.startswith("ILSVRC2012_val_") for name in pictures_in(folder))
