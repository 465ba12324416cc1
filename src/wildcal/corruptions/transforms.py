"""Validation transforms: changes of geometry and color that keep the class of an image.

None of them is a corruption, so a method fitted on them has not seen the types that it is tested
on. Beyond the edge the nearest pixel is repeated. Lengths are in pixels of a 32 x 32 image and grow
with the shorter side.
"""

from collections.abc import Iterable
from math import cos, radians, sin

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from wildcal.corruptions.parameters import Strength
from wildcal.corruptions.pixels import Images, as_rgb, round_to_uint8
from wildcal.corruptions.random import RandomStreams


def rotation(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Rotate about the center, to the left or to the right; strength = (degrees,)."""
    c, s = cos(radians(strength[0])), sin(radians(strength[0]))
    return _moved(images, (np.array([[c, k * s], [-k * s, c]]) for k in _signs(streams)))


def shear(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Shift rows sideways by s times their distance from the middle row; strength = (s,)."""
    s = strength[0]
    return _moved(images, (np.array([[1.0, k * s], [0, 1]]) for k in _signs(streams)))


def scaling(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Enlarge about the center, or shrink; strength = (factor,)."""
    return _moved(images, (np.eye(2) / strength[0] for _ in images))


def translation(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Move by whole pixels along both axes, each way drawn; strength = (pixels,)."""
    height, width = images.shape[1:3]
    move = _pixels(images, strength[0])
    wide = np.pad(images, ((0, 0), (move, move), (move, move), (0, 0)), mode="edge")
    out = np.empty_like(images)
    for image, row, rng in zip(wide, out, streams, strict=True):
        y, x = 2 * move * rng.integers(2, size=2)
        row[:] = image[y : y + height, x : x + width]
    return out


def vertical_flip(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Flip upside down; no strength."""
    return images[:, ::-1].copy()


def cutout(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Hide a square at a drawn place, wholly inside, behind gray; strength = (side,)."""
    height, width = images.shape[1:3]
    side = _pixels(images, strength[0])
    out = images.copy()
    for row, rng in zip(out, streams, strict=True):
        y, x = rng.integers((height - side + 1, width - side + 1))
        row[y : y + side, x : x + side] = 128
    return out


def _pixels(images: Images, length: float) -> int:
    side: int = min(images.shape[1:3])
    return round(length * side / 32)


def _signs(streams: RandomStreams) -> Iterable[int]:
    return (1 - 2 * int(rng.integers(2)) for rng in streams)


def _moved(images: Images, matrices: Iterable[NDArray[np.float64]]) -> Images:
    """Return out(p) = image(A (p - c) + c), p = (x, y) and c the center, for a matrix A each.

    OpenCV interpolates linearly between pixels.
    """
    height, width = images.shape[1:3]
    center = np.array([width - 1, height - 1]) / 2
    out = np.empty_like(images)
    for image, row, a in zip(images, out, matrices, strict=True):
        cv2.warpAffine(
            image,
            np.column_stack([a, center - a @ center]),
            (width, height),
            dst=row,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
    return out


_LEVELS = np.arange(256)


def posterize(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Round to n levels from 0 to 255 in equal steps; strength = (n,)."""
    step = 255 / (strength[0] - 1)
    return _looked_up(images, round_to_uint8(np.rint(_LEVELS / step) * step))


def solarize(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Invert the levels from a threshold on; strength = (threshold,)."""
    return _looked_up(images, np.where(_LEVELS < strength[0], _LEVELS, 255 - _LEVELS))


def gamma(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return 255 (x / 255)^γ: brighter for γ < 1, darker for γ > 1; strength = (γ,)."""
    return _looked_up(images, round_to_uint8(255 * (_LEVELS / 255) ** strength[0]))


def gray(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return the luma 0.299 R + 0.587 G + 0.114 B in every channel; no strength."""
    tall = Image.fromarray(images.reshape(-1, images.shape[2], 3))
    return as_rgb(np.asarray(tall.convert("L")).reshape(images.shape[:3]))


def inverted(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return 255 - x; no strength."""
    return ~images


def channel_swap(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Exchange red and blue; no strength."""
    return images[..., ::-1].copy()


def _looked_up(images: Images, table: NDArray[np.int64] | Images) -> Images:
    return table.astype(np.uint8)[images]
