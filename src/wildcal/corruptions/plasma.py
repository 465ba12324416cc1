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
        finer = np.empty((n, 2 * cells, 2 * cells), np.float32)
        # Corners with the first row and column once more behind the last: it is a torus.
        corner = np.empty((n, cells + 1, cells + 1), np.float32)
        corner[:, :-1, :-1] = finer[:, ::2, ::2] = grid
        corner[:, -1, :-1] = grid[:, 0]
        corner[:, :, -1] = corner[:, :, 0]
        square = corner[:, :-1] + corner[:, 1:]
        # Middles with the last row and column once more before the first.
        middle = np.empty_like(corner)
        inner = middle[:, 1:, 1:]
        np.add(square[:, :, :-1], square[:, :, 1:], out=inner)
        inner *= 0.25
        inner += noise[:, 0]
        middle[:, 0, 1:] = middle[:, -1, 1:]
        middle[:, :, 0] = middle[:, :, -1]
        finer[:, 1::2, 1::2] = inner
        across = inner + middle[:, :-1, 1:]
        across += grid
        across += corner[:, :-1, 1:]
        across *= 0.25
        np.add(across, noise[:, 1], out=finer[:, ::2, 1::2])
        down = inner + middle[:, 1:, :-1]
        down += square[:, :, :-1]
        down *= 0.25
        np.add(down, noise[:, 2], out=finer[:, 1::2, ::2])
        grid, used, wibble = finer, used + 3 * cells * cells, wibble / decay
    grid -= grid.min(axis=(1, 2), keepdims=True)
    grid /= grid.max(axis=(1, 2), keepdims=True)
    return grid
