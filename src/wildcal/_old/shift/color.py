"""Transforms of the colors, each pixel for itself: fewer levels, other levels, other channels."""

import numpy as np
from numpy.typing import NDArray

from wildcal._old.shift.levels import Images, rounded, thrice
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.streams import Streams

_LEVELS = np.arange(256)


def posterize(images: Images, strength: Strength, streams: Streams) -> Images:
    """Round to n levels from 0 to 255 in equal steps; strength = (n,)."""
    step = 255 / (strength[0] - 1)
    return _looked_up(images, rounded(np.rint(_LEVELS / step) * step))


def solarize(images: Images, strength: Strength, streams: Streams) -> Images:
    """Invert the levels from a threshold on; strength = (threshold,)."""
    return _looked_up(images, np.where(_LEVELS < strength[0], _LEVELS, 255 - _LEVELS))


def gamma(images: Images, strength: Strength, streams: Streams) -> Images:
    """Return 255 (x / 255)^γ: brighter for γ < 1, darker for γ > 1; strength = (γ,)."""
    return _looked_up(images, rounded(255 * (_LEVELS / 255) ** strength[0]))


def gray(images: Images, strength: Strength, streams: Streams) -> Images:
    """Return the luma 0.299 R + 0.587 G + 0.114 B in every channel; no strength."""
    # In 16-bit fixed point, as Pillow computes it.
    red, green, blue = (images[..., channel].astype(np.uint32) for channel in range(3))
    luma = (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16
    gray: Images = thrice(luma.astype(np.uint8))
    return gray


def inverted(images: Images, strength: Strength, streams: Streams) -> Images:
    """Return 255 - x; no strength."""
    return ~images


def channel_swap(images: Images, strength: Strength, streams: Streams) -> Images:
    """Exchange red and blue; no strength."""
    return images[..., ::-1].copy()


def _looked_up(images: Images, table: NDArray[np.int64] | Images) -> Images:
    return table.astype(np.uint8)[images]
