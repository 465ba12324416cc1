"""Elastic transform: a jittered affine map, then small smooth displacements."""

from functools import lru_cache

import cv2
import numpy as np
from scipy.fft import dctn, idctn

from wildcal._old.shift.blur import gaussian_kernel, smooth
from wildcal._old.shift.levels import Floats, Images, truncate
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.streams import Streams

_WIDE = 8.0
"""From this σ on, cosine transforms are faster than a kernel of 6 σ pixels."""


def elastic_transform(images: Images, strength: Strength, streams: Streams) -> Images:
    """Move three points by U(±t), then every pixel by α · Gaussian_σ(U(-1, 1)) in x and in y.

    strength = (α, σ, t), all in pixels. The three points are corners of a square with sides of two
    thirds of the image around its center. OpenCV interpolates between pixels on a grid of 1/32.
    """
    alpha, sigma, jitter = strength
    height, width = images.shape[1:3]
    center, side = np.array([width // 2, height // 2]), min(height, width) // 3
    corners = (center + side * np.array([[1, 1], [1, -1], [-1, -1]])).astype(np.float32)
    grid = _grid(height, width)
    out = np.empty(images.shape, np.float32)
    for image, row, rng in zip(images.astype(np.float32), out, streams, strict=True):
        moved = corners + rng.uniform(-jitter, jitter, corners.shape).astype(np.float32)
        affine = cv2.getAffineTransform(corners, moved)
        warped = row if alpha == 0 else None
        warped = cv2.warpAffine(
            image, affine, (width, height), dst=warped, borderMode=cv2.BORDER_REFLECT_101
        )
        if alpha == 0:
            continue
        noise = rng.random((height, width, 2), dtype=np.float32)
        noise *= 2
        noise -= 1
        move = _smooth(noise, sigma)
        move *= np.float32(alpha)
        move += grid
        cv2.remap(
            warped, move[0], move[1], cv2.INTER_LINEAR, dst=row, borderMode=cv2.BORDER_REFLECT
        )
    return truncate(out)


@lru_cache(maxsize=4)
def _grid(height: int, width: int) -> Floats:
    """Return x and y of every pixel, shape (2, H, W)."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y]).astype(np.float32)


def _smooth(noise: Floats, sigma: float) -> Floats:
    """Return noise (H, W, 2) under a Gaussian cut at 3 σ, mirrored at the edges, as (2, H, W)."""
    if sigma < _WIDE:
        return np.stack(cv2.split(smooth(noise, sigma, reach=3.0, border=cv2.BORDER_REFLECT)))
    height, width, _ = noise.shape
    waves = dctn(np.stack(cv2.split(noise)), axes=(1, 2), norm="ortho")
    waves *= _response(height, sigma)[:, None] * _response(width, sigma)
    return np.asarray(idctn(waves, axes=(1, 2), norm="ortho"), np.float32)


@lru_cache(maxsize=8)
def _response(n: int, sigma: float) -> Floats:
    """Return the factors Σ_j g_j cos(π k j / n) by which the Gaussian g changes n cosine waves.

    Waves that are mirrored at both edges stay waves, so these factors are the whole convolution,
    however often the kernel goes around.
    """
    kernel = gaussian_kernel(sigma, 3.0)
    j = np.arange(len(kernel)) - len(kernel) // 2
    waves = np.cos(np.pi / n * np.outer(np.arange(n), j))
    factors: Floats = (waves * kernel).sum(axis=1).astype(np.float32)
    return factors
