"""The temperature of a row: sharper where the largest logit is far ahead of the second."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wildcal.calibrators.context.features import LARGEST
from wildcal.calibrators.context.gap import WARMER
from wildcal.core.arrays import FloatArray, Source
from wildcal.core.block import Block
from wildcal.core.blocks import added, map_blocks
from wildcal.core.columns import total

MARGIN_WEIGHT: Final = 0.25
_BIASES: Final = (-2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Shape:
    """T(x) = T0 softplus(b - m / 4) exp(a), m the margin in units of clean rows, within bounds."""

    temperature: float
    """T0."""
    bias: float
    """b."""
    mean: float
    """Of the margin, on clean rows."""
    std: float
    bounds: tuple[float, float]

    def of(self, block: Block) -> FloatArray:
        """Return T of each row at a = 0, before the bounds."""
        with np.errstate(over="ignore"):  # a margin of 1e300 is simply far ahead
            m = np.clip((block.margin() - self.mean) / self.std, -LARGEST, LARGEST)
        return np.asarray(self.temperature * np.logaddexp(0.0, self.bias - MARGIN_WEIGHT * m))

    def at(self, of_rows: FloatArray, offset: float | FloatArray) -> FloatArray:
        """Return T with an offset a, in all or for each row."""
        return np.clip(of_rows * np.exp(offset), *self.bounds)

    def confidences(self, block: Block, offsets: Sequence[float] = WARMER) -> FloatArray:
        """Return the confidences of a block at some offsets, shape (offsets, n)."""
        of_rows = self.of(block)
        sure = [block.confidence(1.0 / self.at(of_rows, a)) for a in offsets]
        # float32 kernels may round a sure row to just above 1.
        return np.minimum(np.stack(sure), 1.0)


def fit_bias(shape: Shape, logits: Source, weight: FloatArray, accuracy: float) -> float:
    """Return the b with which the mean confidence of rows is their accuracy, as near as it can."""
    from scipy.optimize import brentq  # here: predicting, and `import wildcal`, need no solver

    all_weights = total(weight)

    def too_sure(b: float) -> float:
        tried = Shape(shape.temperature, b, shape.mean, shape.std, shape.bounds)

        def sums(block: Block) -> float:
            sure = block.confidence(1.0 / tried.at(tried.of(block), 0.0))
            return float(sure @ weight[block.rows])

        return float(map_blocks(logits, sums, added)) / all_weights - accuracy

    low, high = _BIASES
    if too_sure(low) <= 0:
        return low
    if too_sure(high) >= 0:
        return high
    return float(brentq(too_sure, low, high, xtol=1e-10, rtol=1e-12))
