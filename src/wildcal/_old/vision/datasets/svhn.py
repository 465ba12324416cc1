"""SVHN, cropped digits (Netzer et al., 2011), from the MATLAB files."""

from pathlib import Path
from typing import Literal

import numpy as np

from wildcal._old.core.checks import check_choice
from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets.images import ArrayImages, ImageSet
from wildcal._old.vision.datasets.mat import read_mat
from wildcal._old.vision.datasets.places import find

URL = "http://ufldl.stanford.edu/housenumbers/"
# The larger of the two parts, train, has 73257 images and as many labels of up to 8 bytes.
_LARGEST_FILE = 100_000 * (32 * 32 * 3 + 8)


def svhn_file(folder: Path, part: str = "test") -> Path:
    """Return the file of a part; raise a FileNotFoundError that says where it was looked for."""
    name = f"{part}_32x32.mat"
    return find("SVHN", URL, [folder / name, folder / "svhn" / name])


def svhn(
    folder: str | Path,
    part: Literal["train", "test"] = "test",
    size: int = 32,
    *,
    interpolation: str = "bilinear",
) -> ImageSet:
    """Return the house numbers: 73257 training or 26032 test images of 32 x 32 pixels.

    The digit 0, which the files call 10, gets label 0.

    Parameters
    ----------
    folder
        The folder with `train_32x32.mat` and `test_32x32.mat`, or one that holds it as `svhn`.
    part
        "train" or "test".
    size
        Width and height of the images; other than 32 they are resized, which needs Pillow.
    interpolation
        How they are resized.
    """
    check_choice("part", part, ("train", "test"))
    path = svhn_file(Path(folder), part)
    arrays = read_mat(path, _LARGEST_FILE)
    pixels, y = arrays.get("X"), arrays.get("y")
    if pixels is None or y is None:
        raise FileFormatError(
            f"{path} must hold the arrays X and y, got {', '.join(sorted(arrays))!r:.80}."
        )
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3):
        raise FileFormatError(
            f"{path} must hold X, uint8 of shape (32, 32, 3, n), got {pixels.dtype} {pixels.shape}."
        )
    n = pixels.shape[3]
    if y.size != n or n == 0:
        raise FileFormatError(f"{path} must hold one label y for each of {n} images, got {y.size}.")
    if not np.isin(y, np.arange(1, 11)).all():
        raise FileFormatError(f"{path} must have labels y from 1 to 10, which is the digit 0.")
    images = np.ascontiguousarray(pixels.transpose(3, 0, 1, 2))
    labels = y.ravel().astype(np.int64) % 10
    names = tuple("0123456789")
    return ArrayImages(f"svhn-{part}", images, labels, names, size, interpolation)
