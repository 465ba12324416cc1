"""The second door: one function for all transforms to tune on."""

from numpy.typing import ArrayLike

from wildcal._old.shift import color, geometry
from wildcal._old.shift.blocks import Function, in_blocks
from wildcal._old.shift.checks import (
    check_choice,
    check_images,
    check_indices,
    check_level,
    check_seed,
)
from wildcal._old.shift.levels import Images
from wildcal._old.shift.streams import Streams
from wildcal._old.shift.tuning import TUNING_TRANSFORMS

_FUNCTIONS: dict[str, Function] = {
    "rotation": geometry.rotation,
    "shear": geometry.shear,
    "translation": geometry.translation,
    "scaling": geometry.scaling,
    "vertical_flip": geometry.vertical_flip,
    "cutout": geometry.cutout,
    "posterize": color.posterize,
    "solarize": color.solarize,
    "gamma": color.gamma,
    "gray": color.gray,
    "inverted": color.inverted,
    "channel_swap": color.channel_swap,
}


def transform(
    images: ArrayLike,
    name: str,
    level: int,
    *,
    seed: int = 0,
    indices: ArrayLike | None = None,
) -> Images:
    """Return the images under one transform that keeps what they show.

    These are for tuning: labeled images that are shifted, but by none of the corruptions that
    methods are tested on.

    Parameters
    ----------
    images : array of uint8, shape (N, H, W, 3)
        RGB images of at least 32 x 32 pixels. They are not written to.
    name : str
        A key of `TUNING_TRANSFORMS`.
    level : int
        From 1 to the number of its strengths. Strengths that are lengths grow with the image.
    seed : int
        Another seed, other directions and places.
    indices : array of int, shape (N,), optional
        The images' own numbers, 0 .. N - 1 by default, with the same meaning as in `corrupt`: a
        subset, another order or another split into batches gives the same images bit for bit.

    Returns
    -------
    array of uint8, shape (N, H, W, 3)

    Examples
    --------
    >>> import numpy as np
    >>> from wildcal._old.shift import TUNING_TRANSFORMS, transform
    >>> images = np.zeros((2, 32, 32, 3), np.uint8)
    >>> int(transform(images, "inverted", 1).min())
    255
    >>> sum(len(strengths) for strengths in TUNING_TRANSFORMS.values())
    24
    """
    batch = check_images(images)
    name = check_choice("name", name, tuple(TUNING_TRANSFORMS))
    level, seed = check_level(name, level), check_seed(seed)
    streams = Streams.of(name, level, seed, check_indices(indices, len(batch)))
    return in_blocks(batch, _FUNCTIONS[name], TUNING_TRANSFORMS[name][level - 1], streams)
