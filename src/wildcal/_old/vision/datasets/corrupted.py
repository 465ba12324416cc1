"""CIFAR-10-C and CIFAR-100-C (Hendrycks and Dietterich, 2019), mapped from their .npy files."""

from pathlib import Path

from wildcal._old.core.checks import check_choice, check_count
from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets.cifar_names import CIFAR10_NAMES, CIFAR100_NAMES
from wildcal._old.vision.datasets.images import ArrayImages, ImageSet
from wildcal._old.vision.datasets.npy import map_npy
from wildcal._old.vision.datasets.places import find, labels_of

CIFAR10_C_URL = "https://zenodo.org/records/2535967"
CIFAR100_C_URL = "https://zenodo.org/records/3555552"

# As in wildcal._old.shift, which cannot be imported without Pillow and OpenCV; a test compares them.
CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
    "speckle_noise",
    "gaussian_blur",
    "spatter",
    "saturate",
)
_SEVERITIES = 5


def cifar10_c(folder: str | Path, name: str, severity: int) -> ImageSet:
    """Return one cell of CIFAR-10-C: the 10000 test images with one corruption at one severity.

    Parameters
    ----------
    folder
        `CIFAR-10-C`, with `<name>.npy` and `labels.npy`, or the folder that holds it.
    name
        One of `wildcal._old.shift.CORRUPTIONS`.
    severity
        1 to 5.
    """
    places = (Path(folder), Path(folder) / "CIFAR-10-C")
    return _read("CIFAR-10-C", CIFAR10_C_URL, places, name, severity, CIFAR10_NAMES)


def cifar100_c(folder: str | Path, name: str, severity: int) -> ImageSet:
    """Return one cell of CIFAR-100-C: the 10000 test images with one corruption at one severity.

    Parameters
    ----------
    folder
        `CIFAR-100-C`, with `<name>.npy` and `labels.npy`, or the folder that holds it.
    name
        One of `wildcal._old.shift.CORRUPTIONS`.
    severity
        1 to 5.
    """
    places = (Path(folder), Path(folder) / "CIFAR-100-C")
    return _read("CIFAR-100-C", CIFAR100_C_URL, places, name, severity, CIFAR100_NAMES)


def check_cell(name: str, severity: int) -> int:
    """Return the severity, if there is such a corruption and such a severity."""
    check_choice("name", name, CORRUPTIONS)
    if check_count("severity", severity) > _SEVERITIES:
        raise ValueError(f"severity must be an integer from 1 to {_SEVERITIES}, got {severity}.")
    return int(severity)


def _read(
    title: str,
    url: str,
    places: tuple[Path, ...],
    name: str,
    severity: int,
    class_names: tuple[str, ...],
) -> ImageSet:
    severity = check_cell(name, severity)
    path = find(title, url, [place / f"{name}.npy" for place in places])
    labels_path = find(title, url, [path.parent / "labels.npy"])
    images, labels = map_npy(path), map_npy(labels_path)
    if images.dtype != "uint8" or images.ndim != 4 or images.shape[1:] != (32, 32, 3):
        raise FileFormatError(
            f"{path} must be uint8 of shape (n, 32, 32, 3), got {images.dtype} {images.shape}."
        )
    n, odd = divmod(len(images), _SEVERITIES)
    if odd:
        raise FileFormatError(
            f"{path} must have as many images for each of the {_SEVERITIES} severities,"
            f" got {len(images)} in all."
        )
    checked = labels_of(labels_path, labels, len(images), len(class_names))
    if (checked.reshape(_SEVERITIES, n) != checked[:n]).any():
        raise FileFormatError(
            f"{labels_path} must repeat the same labels for each severity, and does not."
        )
    cell = slice((severity - 1) * n, severity * n)
    short = title.lower().replace("cifar-", "cifar")
    return ArrayImages(f"{short}-{name}-{severity}", images[cell], checked[:n].copy(), class_names)
