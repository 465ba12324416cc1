"""Cloud textures by the diamond-square algorithm."""

import numpy as np

from wildcal.corruptions.pixels import Floats


def plasma(uniform: Floats, size: int, decay: float) -> Floats:
    """Return textures (N, size, size) with values from 0 to 1.

    `uniform` has shape (N, size² - 1), values in [-1, 1]. At each level, from the whole square to
    single pixels, the middle of every square and then of every edge becomes the mean of its four
    neighbors plus w² · u, and w is divided by `decay`. (w² because the published script multiplies
    by w twice.) The numbers are used level by level: middles, horizontal edges, vertical edges.
    """
    n = len(uniform)
    grid = np.zeros((n, 1, 1), np.float32)
    used, wibble = 0, 100.0
    while (cells := grid.shape[1]) < size:
        noise = np.float32(wibble * wibble) * uniform[:, used : used + 3 * cells * cells]
        noise = noise.reshape(n, 3, cells, cells)
        # The grid is a torus: behind the last row and column are the first again.
        right = np.roll(grid, -1, axis=2)
        square = grid + np.roll(grid, -1, axis=1)
        middle = (square + np.roll(square, -1, axis=2)) / 4 + noise[:, 0]
        finer = np.empty((n, 2 * cells, 2 * cells), np.float32)
        finer[:, ::2, ::2] = grid
        finer[:, 1::2, 1::2] = middle
        finer[:, ::2, 1::2] = (middle + np.roll(middle, 1, axis=1) + grid + right) / 4 + noise[:, 1]
        finer[:, 1::2, ::2] = (middle + np.roll(middle, 1, axis=2) + square) / 4 + noise[:, 2]
        grid, used, wibble = finer, used + 3 * cells * cells, wibble / decay
    grid -= grid.min(axis=(1, 2), keepdims=True)
    grid /= grid.max(axis=(1, 2), keepdims=True)
    return grid
