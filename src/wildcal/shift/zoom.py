"""Zooming into the centre of an image, and the blur of many zooms."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wildcal.shift.levels import Floats, Images, truncate
from wildcal.shift.parameters import Strength
from wildcal.shift.streams import Streams

_SMALL = 64 * 64
"""Up to this many pixels all zooms together are one sparse matrix of a few megabytes."""


def axis_zoom(n: int, factor: float) -> tuple[NDArray[np.intp], Floats]:
    """Return for each of n outputs its left neighbour and the weight of the right one.

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
        low, high = batch.take(left, axis), batch.take(left + 1, axis)
        high -= low
        high *= weight[:, None] if axis == 2 else weight[:, None, None]
        low += high
        batch = low
    return batch


def zoom_blur(images: Images, strength: Strength, streams: Streams) -> Images:
    """Return the mean of x and its zooms by 1, 1 + s, …; strength = (number of zooms, step s)."""
    n, height, width, _ = images.shape
    factors = tuple((1 + strength[1] * np.arange(int(strength[0]))).tolist())
    if height * width <= _SMALL:
        columns = images.reshape(n, -1, 3).transpose(1, 0, 2).reshape(height * width, -1)
        mean = _mean_operator(height, width, factors) @ columns.astype(np.float32)
        out = truncate(mean).reshape(height * width, n, 3).transpose(1, 0, 2)
        return np.ascontiguousarray(out).reshape(images.shape)
    x = images.astype(np.float32)
    total = x.copy()
    for factor in factors:
        total += zoomed(x, factor)
    total /= len(factors) + 1
    return truncate(total)


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
