"""The door: one function for all corruptions."""

from functools import partial
from pathlib import Path
from typing import Literal

from numpy.typing import ArrayLike

from wildcal._old.shift import blur, digital, noise, weather
from wildcal._old.shift.blocks import Function, in_blocks
from wildcal._old.shift.checks import (
    check_choice,
    check_images,
    check_indices,
    check_name,
    check_seed,
    check_severity,
)
from wildcal._old.shift.elastic import elastic_transform
from wildcal._old.shift.levels import Images
from wildcal._old.shift.motion import motion_blur
from wildcal._old.shift.parameters import STRENGTHS, Scale
from wildcal._old.shift.spatter import spatter
from wildcal._old.shift.streams import Streams
from wildcal._old.shift.zoom import zoom_blur

_FUNCTIONS: dict[str, Function] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": motion_blur,
    "zoom_blur": zoom_blur,
    "snow": weather.snow,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic_transform": elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": spatter,
    "saturate": digital.saturate,
}


def corrupt(
    images: ArrayLike,
    name: str,
    severity: int,
    *,
    seed: int = 0,
    indices: ArrayLike | None = None,
    scale: Literal["auto", "cifar", "imagenet"] = "auto",
    frost_textures: str | Path | None = None,
) -> Images:
    """Return the images under one corruption.

    Parameters
    ----------
    images : array of uint8, shape (N, H, W, 3)
        RGB images of at least 32 x 32 pixels. They are not written to.
    name : str
        One of `CORRUPTIONS`.
    severity : int
        1 (mild) to 5 (strong).
    seed : int
        Another seed, another noise.
    indices : array of int, shape (N,), optional
        The images' own numbers, 0 .. N - 1 by default. The noise of an image depends on (name,
        severity, seed, own number) only: a subset, another order or another split into batches
        gives the same images bit for bit if each keeps its number.
    scale : {"auto", "cifar", "imagenet"}
        Whose published strengths to use. "auto" takes CIFAR's for 32 x 32 pixels and ImageNet's
        for all other sizes.
    frost_textures : path, optional
        A folder with the published frost pictures, of which the first five by name are used. By
        default we use textures of our own, and results should be called "frost*".

    Returns
    -------
    array of uint8, shape (N, H, W, 3)

    References
    ----------
    Hendrycks and Dietterich, "Benchmarking neural network robustness to common corruptions and
    perturbations", ICLR 2019, https://arxiv.org/abs/1903.12261.

    Examples
    --------
    >>> import numpy as np
    >>> from wildcal._old.shift import corrupt
    >>> images = np.full((100, 32, 32, 3), 100, np.uint8)
    >>> noisy = corrupt(images, "shot_noise", 3)
    >>> some = corrupt(images[40:50], "shot_noise", 3, indices=range(40, 50))
    >>> bool((some == noisy[40:50]).all())
    True
    """
    batch = check_images(images)
    name, severity, seed = check_name(name), check_severity(severity), check_seed(seed)
    numbers = check_indices(indices, len(batch))
    height, width = batch.shape[1:3]
    check_choice("scale", scale, ("auto", "cifar", "imagenet"))
    if scale == "auto":
        scale = "cifar" if height == width == 32 else "imagenet"
    function = _function(name, frost_textures)
    strength = STRENGTHS[_as_scale(scale)][name][severity - 1]
    return in_blocks(batch, function, strength, Streams.of(name, severity, seed, numbers))


def _as_scale(scale: str) -> Scale:
    return "cifar" if scale == "cifar" else "imagenet"


def _function(name: str, frost_textures: str | Path | None) -> Function:
    if name != "frost":
        return _FUNCTIONS[name]
    folder = None if frost_textures is None else Path(frost_textures).resolve()
    return partial(weather.frost, folder=folder)
