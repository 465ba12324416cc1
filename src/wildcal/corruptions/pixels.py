"""Arrays of pixels: conversions between levels, channels and axes."""

from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

_Pixel = TypeVar("_Pixel", np.uint8, np.float32)

Images = NDArray[np.uint8]
"""A batch, (N, H, W, 3)."""

Floats = NDArray[np.float32]

# The published images were truncated, not rounded. This keeps levels that are whole up to the
# rounding of float32 (1e-5).
ROUNDING = 1e-3


def as_rgb(planes: NDArray[Any]) -> NDArray[Any]:
    """Return (N, H, W) as (N, H, W, 3), the same in every channel.

    Faster than broadcasting by NumPy.
    """
    n, height, width = planes.shape
    tall = cv2.cvtColor(planes.reshape(n * height, width), cv2.COLOR_GRAY2RGB)
    return np.asarray(tall).reshape(n, height, width, 3)


def transposed(array: NDArray[_Pixel]) -> NDArray[_Pixel]:
    """Return rows as columns, (H, W) or (H, W, C)."""
    return np.asarray(cv2.transpose(array), array.dtype)


def split_channels(images: Images) -> list[Images]:
    """Return the red, green and blue planes of a batch, each (N, H, W)."""
    n, height, width, _ = images.shape
    planes = cv2.split(images.reshape(n * height, width, 3))
    return [np.asarray(plane, np.uint8).reshape(n, height, width) for plane in planes]


def to_uint8(levels: Floats) -> Images:
    """Clip to 0..255 and truncate; writes to its argument."""
    levels += np.float32(ROUNDING)
    np.clip(levels, 0, 255, out=levels)
    return levels.astype(np.uint8)


def round_to_uint8(levels: NDArray[Any]) -> Images:
    """Clip to 0..255 and round; writes to its argument."""
    np.clip(levels, 0, 255, out=levels)
    np.rint(levels, out=levels)
    return levels.astype(np.uint8)
