"""Motion blur: a one-sided Gaussian streak, as ImageMagick draws it."""

from functools import lru_cache
from math import ceil, cos, radians, sin

import cv2
import numpy as np
from numpy.typing import NDArray

from wildcal._old.shift.levels import Floats, Images
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.streams import Streams


@lru_cache(maxsize=64)
def _weights(radius: float, sigma: float) -> list[float]:
    i = np.arange(2 * ceil(radius) + 1)
    weights = np.exp(-0.5 * (i / sigma) ** 2)
    weights /= weights.sum()
    # What is left out moves no level by more than 1e-4.
    return [float(w) for w in weights if w > 1e-7]


def streak(image: NDArray[np.uint8], radius: float, sigma: float, degrees: float) -> Floats:
    """Return Σ_i k_i · image(y + ⌈i sin a - ½⌉, x + ⌈i cos a - ½⌉), i = 0 … 2⌈radius⌉.

    The weights are k_i ∝ exp(-i² / 2σ²); beyond the edge the nearest pixel stands in. ImageMagick
    computes on 16-bit numbers, so its results may differ by one level.
    """
    weights = _weights(radius, sigma)
    down, right = sin(radians(degrees)), cos(radians(degrees))
    dy = [ceil(i * down - 0.5) for i in range(len(weights))]
    dx = [ceil(i * right - 0.5) for i in range(len(weights))]
    top, left = -min(dy), -min(dx)  # both begin with 0
    padded = cv2.copyMakeBorder(image, top, max(dy), left, max(dx), cv2.BORDER_REPLICATE)
    padded = padded.astype(np.float32)
    height, width = image.shape[:2]
    out: Floats | None = None
    for weight, y, x in zip(weights, dy, dx, strict=True):
        shifted = padded[y + top : y + top + height, x + left : x + left + width]
        if out is None:
            out = shifted * np.float32(weight)
        else:
            cv2.scaleAdd(shifted, weight, out, dst=out)
    assert out is not None
    return out


def motion_blur(images: Images, strength: Strength, streams: Streams) -> Images:
    """Blur along a direction drawn from U(-45°, 45°); strength = (radius, σ)."""
    radius, sigma = strength
    out = np.empty_like(images)
    for image, row, rng in zip(images, out, streams, strict=True):
        # Levels are not negative, so what this does is to round.
        cv2.convertScaleAbs(streak(image, radius, sigma, rng.uniform(-45, 45)), dst=row)
    return out
