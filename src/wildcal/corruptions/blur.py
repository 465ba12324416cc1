"""Gaussian, defocus, glass, motion and zoom blur."""

from functools import lru_cache
from math import ceil, cos, radians, sin
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wildcal.corruptions.parameters import Strength
from wildcal.corruptions.pixels import (
    Floats,
    Images,
    round_to_uint8,
    split_channels,
    to_uint8,
    transposed,
)
from wildcal.corruptions.random import RandomStreams


@lru_cache(maxsize=64)
def gaussian_kernel(sigma: float, reach: float) -> Floats:
    """Return the weights exp(-i² / 2σ²), |i| <= reach · σ rounded, with sum 1."""
    radius = int(reach * sigma + 0.5)
    i = np.arange(-radius, radius + 1)
    weights: NDArray[Any] = np.exp(-0.5 * (i / sigma) ** 2) if radius else np.ones(1)
    weights /= weights.sum()
    return weights.astype(np.float32)


def smooth(
    image: NDArray[np.uint8] | Floats,
    sigma: float,
    *,
    reach: float = 4.0,
    border: int = cv2.BORDER_REPLICATE,
) -> Floats:
    """Return one image convolved with a Gaussian of `sigma` pixels, cut at `reach` sigmas."""
    kernel = gaussian_kernel(sigma, reach)
    done = cv2.sepFilter2D(image, cv2.CV_32F, kernel, kernel, borderType=border)
    return np.asarray(done, np.float32)


def gaussian_blur(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Convolve with a Gaussian; strength = (σ,) in pixels."""
    return to_uint8(np.stack([smooth(image, strength[0]) for image in images]))


def defocus_blur(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Convolve with a disk; strength = (radius, softness of its edge)."""
    kernel = _disk(*strength)
    # OpenCV is slow on bytes: it takes kernels of 50 weights and more through a Fourier transform,
    # and of floats 130.
    source = images.astype(np.float32) if 25 < kernel.size < 130 else images
    # Beyond the edges the image is reflected without the edge pixel.
    return to_uint8(np.stack([cv2.filter2D(image, cv2.CV_32F, kernel) for image in source]))


@lru_cache(maxsize=10)
def _disk(radius: float, softness: float) -> Floats:
    """Return a disk with sum 1 whose edge was smoothed by a Gaussian of 3 or 5 pixels."""
    half, width = (8, 3) if radius <= 8 else (int(radius), 5)
    i = np.arange(-half, half + 1)
    disk = (i[:, None] ** 2 + i**2 <= radius**2).astype(np.float32)
    disk = cv2.GaussianBlur(disk / disk.sum(), (width, width), sigmaX=softness)
    disk[disk < 1e-12] = 0  # changes no level
    # Empty rows cost time, and beyond 11 rows OpenCV would go through a Fourier transform.
    used = int(np.abs(i[disk.any(axis=1)]).max())
    return np.ascontiguousarray(disk[half - used : half + used + 1, half - used : half + used + 1])


def glass_blur(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Blur, let every pixel take a neighbor's value, blur; strength = (σ, δ, rounds).

    A round goes through the pixels from the lower right, h and w from S - δ down to δ + 1, and
    sets x[h, w] ← x[h + dy, w + dx] with dy, dx drawn from {-δ, …, δ - 1}. (The published script
    means to swap the two pixels, but swapping two views of an array copies one over the other.)
    """
    sigma, delta, rounds = strength[0], int(strength[1]), int(strength[2])
    n, height, width = images.shape[:3]
    inner = (height - 2 * delta, width - 2 * delta)
    steps = np.empty((n, rounds, 2, *inner), np.int8)
    for row, rng in zip(steps, streams, strict=True):
        row[:] = rng.integers(-delta, delta, size=row.shape, dtype=np.int8)
    place = np.arange(n * height * width).reshape(n, height, width)
    region = np.s_[:, delta + 1 : height - delta + 1, delta + 1 : width - delta + 1]
    origin = place.ravel()
    for dy, dx in steps.swapaxes(0, 1).swapaxes(1, 2):
        source = place.copy()
        source[region] += dy.astype(np.intp) * width
        source[region] += dx
        flat = source.ravel()
        origin = origin.take(_scan(flat, place.ravel()) if delta > 1 else flat)
    blurred = gaussian_blur(images, (sigma,), streams)
    moved = blurred.reshape(-1, 3).take(origin, axis=0).reshape(images.shape)
    return gaussian_blur(moved, (sigma,), streams)


def _scan(source: NDArray[np.intp], place: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return where each value comes from when pixels are overwritten from the last to the first.

    A pixel whose source lies behind it takes what that source was given before; following such
    steps to their end by pointer doubling replaces the scan. For δ = 1 there are none.
    """
    jump = np.maximum(source, place)
    while True:
        further = jump.take(jump)
        if np.array_equal(further, jump):
            return source.take(jump)
        jump = further


@lru_cache(maxsize=64)
def _weights(radius: float, sigma: float) -> list[float]:
    i = np.arange(2 * ceil(radius) + 1)
    weights = np.exp(-0.5 * (i / sigma) ** 2)
    weights /= weights.sum()
    # The smaller weights change no level by more than 1e-4.
    return [float(w) for w in weights if w > 1e-7]


def streak(image: NDArray[np.uint8], radius: float, sigma: float, degrees: float) -> Floats:
    """Return Σ_i k_i · image(y + ⌈i sin a - ½⌉, x + ⌈i cos a - ½⌉), i = 0 … 2⌈radius⌉.

    The weights are k_i ∝ exp(-i² / 2σ²); beyond the edge the nearest pixel is repeated. ImageMagick
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
    out: Floats = np.zeros(image.shape, np.float32)
    for weight, y, x in zip(weights, dy, dx, strict=True):
        shifted = padded[y + top : y + top + height, x + left : x + left + width]
        cv2.scaleAdd(shifted, weight, out, dst=out)
    return out


def motion_blur(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Blur along a direction drawn from U(-45°, 45°); strength = (radius, σ)."""
    radius, sigma = strength
    angles = [rng.uniform(-45, 45) for rng in streams]
    blurred = [streak(image, radius, sigma, a) for image, a in zip(images, angles, strict=True)]
    return round_to_uint8(np.stack(blurred))


_SMALL = 64 * 64
"""Up to this many pixels all zooms together are one sparse matrix of a few megabytes."""
_TOGETHER = 4 * 224 * 224
"""Pixels of larger images that are zoomed at a time; larger buffers are three times as slow."""


@lru_cache(maxsize=256)
def axis_zoom(n: int, factor: float) -> tuple[NDArray[np.intp], Floats]:
    """Return for each of n outputs its left neighbor and the weight of the right one.

    The middle ⌈n / factor⌉ pixels are stretched, first on first and last on last, to their number
    times the factor, and the middle n of these are kept.
    """
    kept = int(np.ceil(n / factor))
    size = round(kept * factor)
    first, trim = (n - kept) // 2, (size - n) // 2
    at = (np.arange(n) + trim) * ((kept - 1) / (size - 1))
    left = np.minimum(at.astype(np.intp), kept - 2)
    return first + left, (at - left).astype(np.float32)


def zoomed(batch: Floats, factor: float) -> Floats:
    """Return every image (N, H, W, C) zoomed by the factor with bilinear interpolation."""
    for axis in (1, 2):
        left, weight = axis_zoom(batch.shape[axis], factor)
        low, high = batch.take(left, axis=axis), batch.take(left + 1, axis=axis)
        batch = low + (high - low) * np.expand_dims(weight, tuple(range(1, batch.ndim - axis)))
    return batch


def zoom_blur(images: Images, strength: Strength, streams: RandomStreams) -> Images:
    """Return the mean of x and its zooms by 1, 1 + s, …; strength = (number of zooms, step s)."""
    n, height, width, _ = images.shape
    factors = tuple((1 + strength[1] * np.arange(int(strength[0]))).tolist())
    if height * width <= _SMALL:
        columns = images.reshape(n, -1, 3).transpose(1, 0, 2).reshape(height * width, -1)
        mean = _mean_operator(height, width, factors) @ columns.astype(np.float32)
        out = to_uint8(mean).reshape(height * width, n, 3).transpose(1, 0, 2)
        return np.ascontiguousarray(out).reshape(images.shape)
    planes = split_channels(images)
    return np.stack([[_mean(p, factors) for p in plane] for plane in planes], axis=-1)


def _mean(plane: Images, factors: tuple[float, ...]) -> Images:
    """Return the mean of one plane (H, W) and its zooms."""
    height, width = plane.shape
    levels = plane.astype(np.float32)
    total = transposed(levels)  # the image itself
    step = max(1, _TOGETHER // plane.size)
    for some in (factors[i : i + step] for i in range(0, len(factors), step)):
        along_rows, along_columns = _axis_operators(height, width, some)
        # Whole rows are faster to scale, so columns become rows; those of all zooms side by side.
        total += along_columns @ transposed(along_rows @ levels).reshape(-1, height)
    total /= len(factors) + 1
    return transposed(to_uint8(total))


@lru_cache(maxsize=64)
def _axis_operators(height: int, width: int, factors: tuple[float, ...]) -> tuple[Any, Any]:
    """Return all zooms along rows as one matrix, and the sum of the zooms along columns."""
    count = len(factors)
    rows = sparse.vstack([_matrix(height, factor) for factor in factors], format="csr")
    columns = sparse.csr_matrix((width, count * width))
    for place, factor in zip(np.eye(count), factors, strict=True):
        columns = columns + sparse.kron(_matrix(width, factor), place, format="csr")
    return rows.astype(np.float32), columns.astype(np.float32)


@lru_cache(maxsize=16)
def _mean_operator(height: int, width: int, factors: tuple[float, ...]) -> Any:
    """Return the sparse matrix that takes all pixels to the mean of x and its zooms."""
    total = sparse.identity(height * width, format="csr")
    for factor in factors:
        total = total + sparse.kron(_matrix(height, factor), _matrix(width, factor), format="csr")
    return (total / (len(factors) + 1)).astype(np.float32)


def _matrix(n: int, factor: float) -> Any:
    left, weight = axis_zoom(n, factor)
    rows = np.arange(n)
    data = np.r_[1 - weight.astype(float), weight.astype(float)]
    return sparse.csr_matrix((data, (np.r_[rows, rows], np.r_[left, left + 1])), shape=(n, n))
