"""The bootstrap of many cells at once: the same images are drawn in all of them."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from wildcal.core.arrays import FloatArray
from wildcal.evaluation.protocol.shared import SplitRows
from wildcal.metrics.binning import bin_index


def resampled_ece(
    cells: Sequence[SplitRows], n_bins: int, n_boot: int, seed: int = 0
) -> dict[str, FloatArray]:
    """Return, for each cell, the ECE of resampled rows, shape (methods, n_boot).

    Cells with as many rows hold the same images in the same order, so they share the draws: an
    image that is drawn twice counts twice in every cell.
    """
    drawn: dict[str, FloatArray] = {}
    for n in sorted({len(cell.correct) for cell in cells}):
        same = [cell for cell in cells if len(cell.correct) == n]
        rng = np.random.default_rng([seed, n])
        # How often each row is drawn; a column for each replicate.
        counts = rng.multinomial(n, np.full(n, 1 / n), size=n_boot).T.astype(np.float64)
        n_methods = len(same[0].confidence)
        ece = np.empty((len(same), n_methods, n_boot))
        for m in range(n_methods):
            ece[:, m] = _ece(same, m, counts, n_bins)
        drawn |= {cell.split.name: ece[i] for i, cell in enumerate(same)}
    return drawn


def _ece(cells: Sequence[SplitRows], method: int, counts: FloatArray, n_bins: int) -> FloatArray:
    """Return shape (cells, n_boot).

    The gap of a bin is linear in the counts, so all cells are one product with a sparse matrix that
    has a row for each cell and bin, and one entry in each column for each cell.
    """
    n = len(counts)
    gaps, places = [], []
    for i, cell in enumerate(cells):
        confidence = cell.confidence[method]
        gaps.append(confidence - cell.correct)
        places.append(i * n_bins + bin_index(confidence, n_bins))
    columns = np.tile(np.arange(n), len(cells))
    shape = (len(cells) * n_bins, n)
    matrix = csr_array((np.concatenate(gaps), (np.concatenate(places), columns)), shape=shape)
    per_bin = np.abs(matrix @ counts).reshape(len(cells), n_bins, -1)
    return np.asarray(per_bin.sum(axis=1) / n)
