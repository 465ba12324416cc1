"""Contrast, saturation, pixelation, JPEG compression and the elastic transform."""

from functools import lru_cache

import cv2
import numpy as np
from PIL import Image
from scipy.fft import dctn, idctn

from wildcal.corruptions.blur import gaussian_kernel, smooth
from wildcal.corruptions.parameters import Strength
from wildcal.corruptions.pixels import Floats, Images, split_channels, to_uint8
from wildcal.corruptions.random import RandomStreams


def contrast(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return (x - μ) c + μ, μ the mean of each channel of the image; strength = (c,)."""
    c = strength[0]
    means = np.array([cv2.mean(image)[:3] for image in images], np.float32)
    # An output depends on its input level and its channel alone: one table for each image.
    levels = np.arange(256, dtype=np.float32)[:, None]
    tables = to_uint8(c * levels + (1 - c) * means[:, None])
    return np.stack(
        [cv2.LUT(image, table[None]) for image, table in zip(images, tables, strict=True)]
    )


def saturate(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Map the saturation S of HSV to a · S + b, clipped to [0, 1]; strength = (a, b).

    With value V and hue kept, x becomes V - (V - x) · S' / S. Gray has S = 0 and the hue of red,
    so it becomes (V, V (1 - S'), V (1 - S')).
    """
    a, b = strength
    planes = split_channels(images)
    high = np.maximum(np.maximum(planes[0], planes[1]), planes[2])
    low = np.minimum(np.minimum(planes[0], planes[1]), planes[2])
    v, m = np.arange(256.0)[:, None], np.arange(256.0)
    spread = np.maximum(v - m, 1)
    factor = np.clip(a * spread / np.maximum(v, 1) + b, 0, 1) * v / spread
    minus = -factor.astype(np.float32).take(high.astype(np.uint16) << 8 | low, mode="clip")
    changed = []
    for channel, plane in enumerate(planes):
        out = minus * (high - plane)
        out += high
        if b > 0 and channel > 0:
            np.subtract(out, np.float32(b) * high, out=out, where=high == low)
        changed.append(to_uint8(out))
    return np.stack(changed, axis=-1)


def pixelate(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Shrink to int(c · size) and enlarge again, both with Pillow's box filter; strength = (c,)."""
    height, width = images.shape[1:3]
    small = (int(width * strength[0]), int(height * strength[0]))
    out = np.empty_like(images)
    for image, row in zip(images, out, strict=True):
        shrunk = Image.fromarray(image).resize(small, Image.Resampling.BOX)
        row[:] = shrunk.resize((width, height), Image.Resampling.BOX)
    return out


def jpeg_compression(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Compress as JPEG of quality q with halved color resolution; strength = (q,).

    OpenCV's encoder gives the same image as Pillow's in a fifth of the time.
    """
    options = [
        cv2.IMWRITE_JPEG_QUALITY,
        int(strength[0]),
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    ]
    out = np.empty_like(images)
    for image, row in zip(images, out, strict=True):
        data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), options)[1]
        decoded = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR))
        cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB, dst=row)
    return out


_WIDE = 8.0
"""From this σ on, cosine transforms are faster than a kernel of 6 σ pixels."""


def elastic_transform(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Move three points by U(±t), then every pixel by α · Gaussian_σ(U(-1, 1)) in x and in y.

    strength = (α, σ, t, size), the first three in units of the size in pixels. The three points are
    corners of a square with sides of two thirds of the image around its center. OpenCV interpolates
    between pixels on a grid of 1/32.
    """
    alpha, sigma, jitter = (strength[3] * share for share in strength[:3])
    height, width = images.shape[1:3]
    center, side = np.array([width // 2, height // 2]), min(height, width) // 3
    corners = (center + side * np.array([[1, 1], [1, -1], [-1, -1]])).astype(np.float32)
    grid = _grid(height, width)
    out = np.empty(images.shape, np.float32)
    for image, row, rng in zip(images.astype(np.float32), out, streams, strict=True):
        moved = corners + rng.uniform(-jitter, jitter, corners.shape).astype(np.float32)
        affine = cv2.getAffineTransform(corners, moved)
        warped = cv2.warpAffine(image, affine, (width, height), borderMode=cv2.BORDER_REFLECT_101)
        if alpha > 0:
            noise = 2 * rng.random((height, width, 2), dtype=np.float32) - 1
            x, y = alpha * _smooth(noise, sigma) + grid
            warped = cv2.remap(warped, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
        row[:] = warped
    return to_uint8(out)


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

    Cosine waves are eigenfunctions of a convolution with mirrored edges.
    """
    kernel = gaussian_kernel(sigma, 3.0)
    j = np.arange(len(kernel)) - len(kernel) // 2
    waves = np.cos(np.pi / n * np.outer(np.arange(n), j))
    factors: Floats = (waves * kernel).sum(axis=1).astype(np.float32)
    return factors
