"""The one binning rule of the library: equal-width bins (lo, hi] with float64 edges."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import FloatArray

# Confidences are looked up in so many cells of equal width where there are few bins.
_CELLS = 1 << 11
_MOST_LISTED = 64


@lru_cache(maxsize=16)
def bin_edges(n_bins: int) -> FloatArray:
    """Return the n_bins + 1 edges 0, 1/n_bins, ..., 1 in float64, as a read-only array.

    >>> bin_edges(4)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    edges.setflags(write=False)  # it is shared by everyone who asks
    return edges


def bin_index(confidence: FloatArray, n_bins: int) -> NDArray[np.intp]:
    """Return the bin of each confidence: bin b holds edges[b] < confidence <= edges[b + 1].

    Confidence 0 goes to bin 0, and anything above 1 counts as 1. The result is, bit for bit,
    ``clip(searchsorted(bin_edges(n_bins), confidence, side="left") - 1, 0, n_bins - 1)``, found
    several times faster.

    >>> bin_index(np.array([0.0, 0.25, 0.2500001, 1.0]), 4)
    array([0, 0, 1, 3])
    """
    if n_bins > _MOST_LISTED:
        return _between_edges(confidence, n_bins)
    # Times a power of two is exact, so the cell is; only cells with an edge leave a question.
    cell = (confidence * _CELLS).astype(np.intp)
    index = _bin_of_cell(n_bins).take(cell, mode="clip")
    open_ = np.flatnonzero(index < 0)
    if len(open_):
        index[open_] = np.maximum(bin_edges(n_bins).searchsorted(confidence[open_]) - 1, 0)
    return index


@lru_cache(maxsize=16)
def _bin_of_cell(n_bins: int) -> NDArray[np.intp]:
    """Return the bin that all of [c, c + 1) / 2048 lies in, -1 where there is an edge in it."""
    edges = bin_edges(n_bins)
    table = np.searchsorted(edges, np.arange(_CELLS + 1) / _CELLS) - 1
    table[(edges[:-1] * _CELLS).astype(np.intp)] = -1
    table[_CELLS] = n_bins - 1
    return table


def _between_edges(confidence: FloatArray, n_bins: int) -> NDArray[np.intp]:
    """Return the bin of each confidence, compared with the edges of the bin that it should be."""
    edges = bin_edges(n_bins)
    # confidence * n_bins is off by a rounding at most, hence the guess by one bin at most, and
    # comparing with the two edges of the guessed bin puts it right.
    index = (confidence * n_bins).astype(np.intp)
    np.minimum(index, n_bins - 1, out=index)
    # mode="clip" never clips here; it spares the bounds check of the default mode.
    too_low = confidence > edges[1:].take(index, mode="clip")
    index -= confidence <= edges.take(index, mode="clip")
    index += too_low
    return np.clip(index, 0, n_bins - 1, out=index)
