"""Describable Textures, DTD (Cimpoi et al., 2014): images that show no object."""

from pathlib import Path

from wildcal._old.vision.datasets.folders import labeled, pictures_in, subfolders
from wildcal._old.vision.datasets.images import ImageSet
from wildcal._old.vision.datasets.places import find

CLASSES = frozenset(
    "banded blotchy braided bubbly bumpy chequered cobwebbed cracked crosshatched crystalline "
    "dotted fibrous flecked freckled frilly gauzy grid grooved honeycombed interlaced knitted "
    "lacelike lined marbled matted meshed paisley perforated pitted pleated polka-dotted "
    "porous potholed scaly smeared spiraled sprinkled stained stratified striped studded "
    "swirly veined waffled woven wrinkled zigzagged".split()
)
URL = "https://www.robots.ox.ac.uk/~vgg/data/dtd/"


def textures(
    folder: str | Path,
    size: int = 32,
    *,
    resize: int | None = None,
    interpolation: str = "bilinear",
) -> ImageSet:
    """Return the 5640 textures in 47 classes, as squares for a network's input.

    Parameters
    ----------
    folder
        `dtd/images`, `dtd`, or the folder that holds it.
    size
        Width and height of the images, in pixels.
    resize, interpolation
        What the short side is resized to before the center is cut out, `size` by default, and how.
    """
    folder = Path(folder)
    places = (folder / "dtd" / "images", folder / "images", folder)
    home = find("DTD", URL, places, _has_classes)
    names = tuple(subfolders(home))
    labels = {name: k for k, name in enumerate(names)}
    return labeled(
        "textures", home, labels, names, size, resize or size, interpolation=interpolation
    )


def _has_classes(folder: Path) -> bool:
    """Return whether this is DTD: any other images must not pass for textures."""
    if not folder.is_dir():
        return False
    names = subfolders(folder)
    return set(names) <= CLASSES and any(pictures_in(folder / name) for name in names)
