"""Blurs without a direction: Gaussian, defocus and glass."""

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from wildcal._old.shift.levels import Floats, Images, truncate
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.streams import Streams


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


def gaussian_blur(images: Images, strength: Strength, streams: Streams) -> Images:
    """Convolve with a Gaussian; strength = (σ,) in pixels."""
    kernel = gaussian_kernel(strength[0], 4.0)
    out = np.empty(images.shape, np.float32)
    for image, row in zip(images, out, strict=True):
        cv2.sepFilter2D(image, cv2.CV_32F, kernel, kernel, row, borderType=cv2.BORDER_REPLICATE)
    return truncate(out)


def defocus_blur(images: Images, strength: Strength, streams: Streams) -> Images:
    """Convolve with a disk; strength = (radius, softness of its edge)."""
    kernel = _disk(*strength)
    out = np.empty(images.shape, np.float32)
    # OpenCV is slow on bytes: it takes kernels of 50 weights and more through a Fourier transform,
    # and of floats 130. Smaller ones keep the bits they always had.
    source = images.astype(np.float32) if 25 < kernel.size < 130 else images
    for image, row in zip(source, out, strict=True):
        cv2.filter2D(image, cv2.CV_32F, kernel, dst=row)  # reflects without the edge pixel
    return truncate(out)


@lru_cache(maxsize=10)
def _disk(radius: float, softness: float) -> Floats:
    """Return a disk with sum 1 whose edge was smoothed by a Gaussian of 3 or 5 pixels."""
    half, width = (8, 3) if radius <= 8 else (int(radius), 5)
    i = np.arange(-half, half + 1)
    disk = (i[:, None] ** 2 + i**2 <= radius**2).astype(np.float32)
    disk = cv2.GaussianBlur(disk / disk.sum(), (width, width), sigmaX=softness)
    disk[disk < 1e-12] = 0  # which moves no level
    # Empty rows cost time, and beyond 11 rows OpenCV would go through a Fourier transform.
    used = int(np.abs(i[disk.any(axis=1)]).max())
    return np.ascontiguousarray(disk[half - used : half + used + 1, half - used : half + used + 1])


def glass_blur(images: Images, strength: Strength, streams: Streams) -> Images:
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
    # Three bytes and an empty one are a number, and numbers are faster to collect.
    blurred = gaussian_blur(images, (sigma,), streams).reshape(n * height, width, 3)
    pixels = cv2.cvtColor(blurred, cv2.COLOR_RGB2RGBA).view(np.uint32).ravel().take(origin)
    bytes_ = pixels.view(np.uint8).reshape(n * height, width, 4)
    moved = np.asarray(cv2.cvtColor(bytes_, cv2.COLOR_RGBA2RGB), np.uint8)
    return gaussian_blur(moved.reshape(images.shape), (sigma,), streams)


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
