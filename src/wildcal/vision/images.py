"""Sets of labelled images, and how a picture becomes the numbers that a network takes."""

import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice, check_number
from wildcal.corruptions.images import Image, open_picture

Images: TypeAlias = NDArray[np.uint8]
"""Shape (n, height, width, 3)."""
Indices: TypeAlias = NDArray[np.int64]
INTERPOLATIONS: Final = ("nearest", "bilinear", "bicubic", "lanczos")
"""All but the first are antialiased."""

# Longer pictures would take too much memory when the short side is enlarged.
_MAX_ASPECT: Final = 50


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """Resize the short side, crop the center, normalize: (scale * x / 255 - mean) / std.

    Parameters
    ----------
    crop
        Width and height of the input of the network, in pixels.
    resize
        Length to which the short side of a picture is resized first.
    interpolation
        "nearest", "bilinear", "bicubic" or "lanczos".
    mean, std
        Of red, green and blue, in units of the scale.
    channels
        Order of the colors: "rgb" or "bgr".
    scale
        Value of white before the mean is subtracted: 1, or 255.

    Examples
    --------
    >>> PRESETS["timm-0.5"].resize, PRESETS["timm-0.5"].crop
    (248, 224)
    """

    crop: int = 224
    resize: int = 256
    interpolation: str = "bilinear"
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    channels: str = "rgb"
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_number("crop", self.crop, 1, whole=True)
        check_number("resize", self.resize, self.crop, whole=True)
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        check_choice("channels", self.channels, ("rgb", "bgr"))
        if len(self.mean) != 3 or len(self.std) != 3 or not min(self.std) > 0 < self.scale:
            raise InputError(
                "mean and std must be three numbers each, std and scale above 0, got"
                f" {self.mean}, {self.std} and {self.scale}.",
                "std",
            )

    def normalize(self, images: Images) -> NDArray[np.float32]:
        """Return float32 of the same shape."""
        mean, std = np.array([self.mean, self.std], np.float32) * np.float32(255 / self.scale)
        pixels = images.astype(np.float32)
        pixels -= mean
        pixels /= std
        return pixels if self.channels == "rgb" else np.ascontiguousarray(pixels[..., ::-1])

    def with_crop(self, crop: int) -> "Preprocess":
        """Return the same with another crop, and the margin around it in proportion."""
        return replace(self, crop=crop, resize=round(crop * self.resize / self.crop))


IMAGENET: Final = Preprocess()
CIFAR10: Final = Preprocess(
    crop=32, resize=32, mean=(0.4915, 0.4821, 0.4464), std=(0.2472, 0.2437, 0.2617)
)
CIFAR100: Final = replace(CIFAR10, mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762))
CIFAR_PREPROCESS: Final = {"cifar10": CIFAR10, "cifar100": CIFAR100}
PRESETS: Final = {
    "torchvision": IMAGENET,
    # Most vision transformers: nine tenths of the picture, colors from -1 to 1.
    "timm-0.5": Preprocess(resize=248, interpolation="bicubic", mean=(0.5,) * 3, std=(0.5,) * 3),
    # Networks from Caffe, and the first ones of Keras.
    "caffe": Preprocess(
        mean=(123.68, 116.779, 103.939), std=(1.0,) * 3, channels="bgr", scale=255.0
    ),
    # Colors from 0 to 1.
    "unit": replace(IMAGENET, mean=(0.0,) * 3, std=(1.0,) * 3),
}
"""How common collections of networks expect their pictures."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageSet(ABC):
    """Labelled images of one size; pixels are read when they are asked for.

    Parameters
    ----------
    name
        A short name, such as cifar10-test.
    labels
        Class indices, shape (n,).
    class_names
        All classes, whether they occur or not.
    """

    name: str
    labels: Indices
    class_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def read(self, indices: Indices) -> Images:
        """Return some images, shape (n, height, width, 3), in the order asked for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrayImages(ImageSet):
    """Images in one array, in memory or mapped from a file, resized to `size` when they are read.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.zeros((2, 32, 32, 3), np.uint8)
    >>> data = ArrayImages(
    ...     name="mine", images=images, labels=np.array([1, 0]), class_names=("cat", "dog")
    ... )
    >>> len(data), data.read(np.array([1, 0, 1])).shape
    (2, (3, 32, 32, 3))
    """

    images: Images
    size: int | None = None
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        images = self.images
        if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8 or not len(images):
            raise InputError(
                "images must be uint8 of shape (n, height, width, 3), got"
                f" {images.dtype} of shape {images.shape}.",
                "images",
            )
        if len(self.labels) != len(images):
            raise InputError(
                f"labels must have shape ({len(images)},), got {self.labels.shape}.", "labels"
            )

    def read(self, indices: Indices) -> Images:
        """Return some images, in the order asked for."""
        images = np.array(self.images[indices], order="C")
        if self.size in (None, images.shape[1]):
            return images
        size = (self.size, self.size)
        method = Image.Resampling[self.interpolation.upper()]
        resized = [np.asarray(Image.fromarray(image).resize(size, method)) for image in images]
        return np.stack(resized)


@dataclass(frozen=True, eq=False, kw_only=True)
class PictureFiles(ImageSet):
    """Picture files below a folder, each decoded and cropped when it is read."""

    folder: Path
    files: tuple[str, ...]
    preprocess: Preprocess

    def read(self, indices: Indices) -> Images:
        """Return some images, in the order asked for; decoded by several threads."""
        paths = [self.folder / self.files[i] for i in indices]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return np.stack(list(pool.map(self._read_one, paths)))

    def _read_one(self, path: Path) -> Images:
        return np.asarray(_center(open_picture(path), self.preprocess, path))


def common_size(folder: Path) -> int | None:
    """Return the side of the pictures in folders of classes if all are squares of one size.

    At most 400 pictures are opened, evenly spread.
    """
    paths = sorted(path for path in folder.glob("*/*") if path.is_file())
    sizes: set[tuple[int, int]] = set()
    for path in paths[:: max(1, len(paths) // 200)]:
        try:
            with Image.open(path) as picture:
                sizes.add(picture.size)
        except OSError:  # no picture
            continue
    if len(sizes) != 1:
        return None
    width, height = sizes.pop()
    return width if width == height else None


def _center(picture: Image.Image, preprocess: Preprocess, path: Path) -> Image.Image:
    """Resize the short side, the long side in proportion and rounded down, and crop the center."""
    width, height = picture.size
    short, size, crop = min(width, height), preprocess.resize, preprocess.crop
    if max(width, height) > _MAX_ASPECT * short:
        raise InputError(f"cannot use {path}: {width} x {height} pixels.")
    if short != size:
        width, height = size * width // short, size * height // short
        method = Image.Resampling[preprocess.interpolation.upper()]
        picture = picture.resize((width, height), method)
    left, top = round((width - crop) / 2), round((height - crop) / 2)
    return picture.crop((left, top, left + crop, top + crop))
