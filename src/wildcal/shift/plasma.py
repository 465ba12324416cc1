"""Plasma: the cloud texture of fog, by the diamond-square algorithm on a torus."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.shift.levels import Floats


def plasma(uniform: Floats, size: int, decay: float) -> Floats:
    """Return textures (N, size, size) with values from 0 to 1.

    `uniform` has shape (N, size² - 1), values in [-1, 1]. At each level, from the whole square to
    single pixels, the middle of every square and then of every edge becomes the mean of its four
    neighbours plus w² · u, and w is divided by `decay`. (w² because the published script multiplies
    by w twice.) The numbers are used level by level: middles, horizontal edges, vertical edges.
    """
    out = np.zeros((len(uniform), size, size), np.float32)
    step, used = size, 0
    wibble = 100.0
    while step >= 2:
        half, cells = step // 2, size // step

        def noise(part: int, start: int = used, cells: int = cells, w: float = wibble) -> Floats:
            begin = start + part * cells * cells
            return np.float32(w * w) * uniform[:, begin : begin + cells * cells].reshape(
                -1, cells, cells
            )

        corner = out[:, ::step, ::step]
        square = corner + _next(corner, 1)
        middle = (square + _next(square, 2)) / 4 + noise(0)
        out[:, half::step, half::step] = middle
        across = middle + _last(middle, 1) + corner + _next(corner, 2)
        out[:, ::step, half::step] = across / 4 + noise(1)
        down = middle + _last(middle, 2) + square
        out[:, half::step, ::step] = down / 4 + noise(2)
        step, used, wibble = half, used + 3 * cells * cells, wibble / decay
    out -= out.min(axis=(1, 2), keepdims=True)
    out /= out.max(axis=(1, 2), keepdims=True)
    return out


def _next(grid: NDArray[Any], axis: int) -> NDArray[Any]:
    return np.roll(grid, -1, axis)


def _last(grid: NDArray[Any], axis: int) -> NDArray[Any]:
    return np.roll(grid, 1, axis)
