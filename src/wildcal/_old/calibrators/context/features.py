"""What the method sees of a row."""

from typing import Final

import numpy as np

from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.block import Block

# Rows further from the clean ones than this many standard deviations count as this far.
LARGEST: Final = 6.0
# Less than this part of the mean is the rounding of float32.
_LEAST_SPREAD: Final = 1e-6


def confidence(block: Block, temperature: float) -> FloatArray:
    """Return the largest softmax probability of each row at one temperature."""
    return block.confidence(np.full(block.n, 1.0 / temperature))


def spread_or_one(mean: float, spread: float) -> float:
    """Return a standard deviation, and 1 where it is no more than rounding."""
    return spread if spread > _LEAST_SPREAD * max(1.0, abs(mean)) else 1.0
