"""Which rows of a window are unsure: about as many of the clean rows as are wrong.

Under shift the share of such rows grows with the share of wrong ones, far more than mean confidence
falls. The border is soft, so that a row on it is counted alike in every precision.
"""

from typing import Final

import numpy as np

from wildcal._old.calibrators.context.gap import WARMER
from wildcal._old.calibrators.context.shape import Shape
from wildcal._old.core.arrays import FloatArray, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, map_blocks

WIDTH: Final = 0.1
"""Of the border, in confidence."""
_BINS: Final = 4096


def unsure(confidence: FloatArray, border: float) -> FloatArray:
    """Return 1 for rows below the border, 0 for those above, and what lies between on it.

    Their confidence is that when warmest, where sure rows are least alike.

    >>> print(unsure(np.array([0.5, 0.69, 0.7, 0.9]), 0.7))
    [1.  0.6 0.5 0. ]
    """
    return np.asarray(np.clip((border - confidence) / WIDTH + 0.5, 0.0, 1.0))


def fit_border(shape: Shape, logits: Source, weight: FloatArray, wrong: float) -> float:
    """Return the border at which the share of unsure rows is `wrong`, to a few thousandths."""

    def histogram(block: Block) -> FloatArray:
        (sure,) = shape.confidences(block, WARMER[-1:])
        at = np.minimum((sure * _BINS).astype(np.int64), _BINS - 1)
        return np.asarray(np.bincount(at, weight[block.rows], _BINS), np.float64)

    counts = np.asarray(map_blocks(logits, histogram, added))
    centers = (np.arange(_BINS) + 0.5) / _BINS
    low, high = -WIDTH, 1.0 + WIDTH  # none is unsure, all are
    while high - low > 1 / _BINS:
        middle = (low + high) / 2
        too_few = unsure(centers, middle) @ counts < wrong * counts.sum()
        low, high = (middle, high) if too_few else (low, middle)
    return (low + high) / 2
