"""From floating levels 0..255 to bytes, the way the published scripts do it."""

from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", np.uint8, np.float32)

Images = NDArray[np.uint8]
"""A batch, (N, H, W, 3)."""

Floats = NDArray[np.float32]

# The published images were cast, not rounded, and so are ours. A level that is whole up to the
# rounding of float32 (1e-5) must count as that level, on every machine.
NUDGE = 1e-3


def thrice(planes: NDArray[Any]) -> NDArray[Any]:
    """Return (N, H, W) as (N, H, W, 3), the same in every channel.

    NumPy would broadcast in steps of three numbers, which costs more than this copy.
    """
    n, height, width = planes.shape
    tall = cv2.cvtColor(planes.reshape(n * height, width), cv2.COLOR_GRAY2RGB)
    return np.asarray(tall).reshape(n, height, width, 3)


def turned(array: NDArray[_Number]) -> NDArray[_Number]:
    """Return rows as columns, (H, W) or (H, W, C)."""
    return np.asarray(cv2.transpose(array), array.dtype)


def split(images: Images) -> list[Images]:
    """Return the red, green and blue planes of a batch, each (N, H, W)."""
    n, height, width, _ = images.shape
    planes = cv2.split(images.reshape(n * height, width, 3))
    return [np.asarray(plane, np.uint8).reshape(n, height, width) for plane in planes]


def merged(planes: list[Images]) -> Images:
    """Return the batch (N, H, W, 3) of three planes."""
    n, height, width = planes[0].shape
    tall = cv2.merge([plane.reshape(n * height, width) for plane in planes])
    return np.asarray(tall, np.uint8).reshape(n, height, width, 3)


def truncate(levels: Floats) -> Images:
    """Clip to 0..255 and cut the fraction off; writes to its argument."""
    levels += np.float32(NUDGE)
    np.clip(levels, 0, 255, out=levels)
    return levels.astype(np.uint8)


def rounded(levels: NDArray[Any]) -> Images:
    """Clip to 0..255 and round; writes to its argument."""
    np.clip(levels, 0, 255, out=levels)
    np.rint(levels, out=levels)
    return levels.astype(np.uint8)
