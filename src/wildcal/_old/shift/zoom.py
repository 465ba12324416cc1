"""Zooming into the center of an image, and the blur of many zooms."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wildcal._old.shift.levels import Floats, Images, merged, split, truncate, turned
from wildcal._old.shift.parameters import Strength
from wildcal._old.shift.streams import Streams

_SMALL = 64 * 64
"""Up to this many pixels all zooms together are one sparse matrix of a few megabytes."""
_TOGETHER = 4 * 224 * 224
"""Pixels of larger images that are zoomed at a time. Above a megabyte memory is fetched from the
system anew, page by page, which takes thrice as long."""


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
    n, height, width, channels = batch.shape
    rows = _between(batch.reshape(n, height, -1), *axis_zoom(height, factor))
    # Whole rows are fast to copy and to weigh, so columns become rows for a while.
    columns = turned(rows.reshape(n * height, width, channels)).reshape(1, width, -1)
    columns = _between(columns, *axis_zoom(width, factor))
    return turned(columns.reshape(width, n * height, channels)).reshape(batch.shape)


def _between(rows: Floats, left: NDArray[np.intp], weight: Floats) -> Floats:
    """Return rows (N, rows, values) between those on the left and the next ones."""
    low = rows.take(left, axis=1, mode="clip")
    high = rows.take(left + 1, axis=1, mode="clip")
    high -= low
    high *= weight[:, None]
    low += high
    return low


def zoom_blur(images: Images, strength: Strength, streams: Streams) -> Images:
    """Return the mean of x and its zooms by 1, 1 + s, …; strength = (number of zooms, step s)."""
    n, height, width, _ = images.shape
    factors = tuple((1 + strength[1] * np.arange(int(strength[0]))).tolist())
    if height * width <= _SMALL:
        columns = images.reshape(n, -1, 3).transpose(1, 0, 2).reshape(height * width, -1)
        mean = _mean_operator(height, width, factors) @ columns.astype(np.float32)
        out = truncate(mean).reshape(height * width, n, 3).transpose(1, 0, 2)
        return np.ascontiguousarray(out).reshape(images.shape)
    planes = [np.stack([_mean(image, factors) for image in plane]) for plane in split(images)]
    return merged(planes)


def _mean(plane: Images, factors: tuple[float, ...]) -> Images:
    """Return the mean of one plane (H, W) and its zooms."""
    height, width = plane.shape
    levels = plane.astype(np.float32)
    total = turned(levels)  # the image itself
    step = max(1, _TOGETHER // plane.size)
    for some in (factors[i : i + step] for i in range(0, len(factors), step)):
        along_rows, along_columns = _axis_operators(height, width, some)
        # Whole rows are fast to weigh, so columns become rows; those of all zooms side by side.
        total += along_columns @ turned(along_rows @ levels).reshape(-1, height)
    total /= len(factors) + 1
    return turned(truncate(total))


@lru_cache(maxsize=64)
def _axis_operators(height: int, width: int, factors: tuple[float, ...]) -> tuple[Any, Any]:
    """Return what zooms along rows, zoom below zoom, and what adds up zooms along columns."""
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
