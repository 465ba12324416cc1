"""Apply corruptions and validation transforms by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice, check_number
from wildcal.corruptions import blur, digital, noise, transforms, weather
from wildcal.corruptions.parameters import (
    CORRUPTIONS,
    SEVERITIES,
    STRENGTHS,
    VALIDATION_TRANSFORMS,
    Scale,
    Strength,
)
from wildcal.corruptions.pixels import Images
from wildcal.corruptions.random import RandomStreams

_Function = Callable[[Images, Strength, RandomStreams], Images]

_MODULES = {
    noise: ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    blur: ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur"),
    weather: ("snow", "fog", "brightness", "spatter"),
    digital: ("contrast", "elastic_transform", "pixelate", "jpeg_compression", "saturate"),
    transforms: tuple(VALIDATION_TRANSFORMS),
}
_FUNCTIONS: dict[str, _Function] = {
    name: getattr(module, name) for module, names in _MODULES.items() for name in names
}
_MIN_SIDE = 32
# Pixels per block: 64 images of 32 x 32, whose floats fit into the cache of a core.
_BLOCK = 1 << 16


def corrupt(
    images: ArrayLike,
    name: str,
    severity: int,
    *,
    seed: int = 0,
    indices: ArrayLike | None = None,
    scale: Literal["auto"] | Scale = "auto",
    frost_textures: str | Path | None = None,
) -> Images:
    """Return images under one common corruption.

    Parameters
    ----------
    images : array of uint8, shape (n, height, width, 3)
        RGB images of at least 32 x 32 pixels.
    name : str
        One of `CORRUPTIONS`.
    severity : int
        1 (mild) to 5 (strong).
    seed : int
        Seed of the noise.
    indices : array of int, shape (n,), optional
        Index of each image in its data set, 0 to n - 1 by default. The noise of an image depends on
        (name, severity, seed, index) only: a subset, another order or other batches give the same
        images if each keeps its index.
    scale : {"auto", "cifar", "imagenet"}
        Published strengths to use. "auto" takes those of CIFAR for 32 x 32 pixels and those
        of ImageNet for all other sizes.
    frost_textures : path, optional
        Folder with the published frost pictures; the first five by name are used. By default the
        package draws textures; call results with them "frost*".

    Returns
    -------
    array of uint8, shape (n, height, width, 3)

    References
    ----------
    Hendrycks and Dietterich, "Benchmarking neural network robustness to common corruptions and
    perturbations", ICLR 2019, https://arxiv.org/abs/1903.12261.

    Examples
    --------
    >>> import numpy as np
    >>> from wildcal.corruptions import corrupt
    >>> images = np.full((100, 32, 32, 3), 100, np.uint8)
    >>> noisy = corrupt(images, "shot_noise", 3)
    >>> some = corrupt(images[40:50], "shot_noise", 3, indices=range(40, 50))
    >>> bool((some == noisy[40:50]).all())
    True
    """
    batch = check_images(images)
    if name in VALIDATION_TRANSFORMS:
        raise InputError(f"name must be a corruption, got {name!r}. Try transform().", "name")
    check_choice("name", name, CORRUPTIONS)
    check_number("severity", severity, 1, len(SEVERITIES), whole=True)
    check_choice("scale", scale, ("auto", *STRENGTHS))
    if scale == "auto":
        scale = "cifar" if batch.shape[1:3] == (32, 32) else "imagenet"
    if name == "frost":
        folder = None if frost_textures is None else Path(frost_textures).resolve()
        function: _Function = partial(weather.frost, folder=folder)
    else:
        function = _FUNCTIONS[name]
    streams = _streams(name, int(severity), seed, indices, len(batch))
    return _in_blocks(batch, function, STRENGTHS[scale][name][severity - 1], streams)


def transform(
    images: ArrayLike, name: str, level: int, *, seed: int = 0, indices: ArrayLike | None = None
) -> Images:
    """Return images under one validation transform, which keeps the class.

    With these, methods are fitted to labelled images that are shifted, but by none of the
    corruptions that they are tested on.

    Parameters
    ----------
    images : array of uint8, shape (n, height, width, 3)
        RGB images of at least 32 x 32 pixels.
    name : str
        A key of `VALIDATION_TRANSFORMS`.
    level : int
        From 1 to the number of its strengths. Strengths that are lengths grow with the image.
    seed : int
        Seed of directions and positions.
    indices : array of int, shape (n,), optional
        Index of each image, as in `corrupt`.

    Returns
    -------
    array of uint8, shape (n, height, width, 3)

    Examples
    --------
    >>> import numpy as np
    >>> from wildcal.corruptions import VALIDATION_TRANSFORMS, transform
    >>> images = np.zeros((2, 32, 32, 3), np.uint8)
    >>> int(transform(images, "inverted", 1).min())
    255
    >>> sum(len(strengths) for strengths in VALIDATION_TRANSFORMS.values())
    24
    """
    batch = check_images(images)
    check_choice("name", name, VALIDATION_TRANSFORMS)
    strengths = VALIDATION_TRANSFORMS[name]
    check_number("level", level, 1, len(strengths), whole=True)
    streams = _streams(name, int(level), seed, indices, len(batch))
    return _in_blocks(batch, _FUNCTIONS[name], strengths[level - 1], streams)


def check_images(images: ArrayLike) -> Images:
    """Return images as an array of uint8, shape (n, height, width, 3)."""
    array: NDArray[Any] = np.asarray(images)
    if array.ndim != 4 or array.shape[3] != 3:
        hint = " For one image give images[None]." if array.ndim == 3 else ""
        raise InputError(
            f"images must have shape (n, height, width, 3), got {array.shape}.{hint}", "images"
        )
    if array.dtype != np.uint8:
        raise InputError(
            f"images must be uint8 (levels 0 to 255), got {array.dtype}."
            " Try (255 * images).round().astype('uint8') for values in [0, 1].",
            "images",
        )
    if len(array) == 0:
        raise InputError("images must hold at least one image, got an empty batch.", "images")
    if min(array.shape[1:3]) < _MIN_SIDE:
        raise InputError(
            f"images must be at least {_MIN_SIDE} x {_MIN_SIDE} pixels,"
            f" got {array.shape[1]} x {array.shape[2]}.",
            "images",
        )
    return array


def _streams(
    name: str, severity: int, seed: int, indices: ArrayLike | None, n: int
) -> RandomStreams:
    check_number("seed", seed, 0, whole=True)
    array: NDArray[Any] = np.arange(n) if indices is None else np.asarray(indices)
    if array.shape != (n,) or array.dtype.kind not in "iu" or bool((array < 0).any()):
        raise InputError(
            f"indices must be {n} integers >= 0, one per image, got shape {array.shape} of"
            f" {array.dtype}.",
            "indices",
        )
    return RandomStreams.of(name, severity, int(seed), array.astype(np.uint64))


def _in_blocks(
    batch: Images, function: _Function, strength: Strength, streams: RandomStreams
) -> Images:
    """Return function(batch, strength, streams), computed block by block."""
    out = np.empty(batch.shape, np.uint8)
    count = max(1, _BLOCK // (batch.shape[1] * batch.shape[2]))
    for start in range(0, len(batch), count):
        part = slice(start, start + count)
        out[part] = function(np.ascontiguousarray(batch[part]), strength, streams[part])
    return out
