"""The temperature of a row: in a shifted window, sharper where it leads by far."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wildcal._old.calibrators.context.features import LARGEST
from wildcal._old.calibrators.context.gap import WARMER
from wildcal._old.core.arrays import FloatArray, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, map_blocks
from wildcal._old.core.columns import total

STEEPENING: Final = 4.0
"""How fast the weight of the margin grows with the offset."""
OLD_WEIGHT: Final = 0.25
"""Of the margin at every offset, in files of earlier versions."""
_BIASES: Final = (-2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Shape:
    """T(x) = T0 softplus(b - w m) exp(a - ω m), m the margin in units of clean rows, within bounds.

    ω = W (1 - exp(-4 a)), 0 for a < 0: rows of a clean window differ by their logits alone. In a
    window that a shift made unsure, a row far ahead may well come from before it.
    """

    temperature: float
    """T0."""
    bias: float
    """b."""
    mean: float
    """Of the margin, on clean rows."""
    std: float
    bounds: tuple[float, float]
    steepest: float
    """W."""
    weight: float = 0.0
    """w, which earlier versions had."""

    def of(self, block: Block) -> FloatArray:
        """Return m of each row."""
        with np.errstate(over="ignore"):  # a margin of 1e300 is simply far ahead
            return np.clip((block.margin() - self.mean) / self.std, -LARGEST, LARGEST)

    def at(self, margin: FloatArray, offset: float | FloatArray) -> FloatArray:
        """Return T of rows with these m at an offset a, in all or for each row."""
        steep = self.steepest * (1.0 - np.exp(-STEEPENING * np.maximum(offset, 0.0)))
        return np.clip(self._clean(margin) * np.exp(offset - steep * margin), *self.bounds)

    def _clean(self, margin: FloatArray) -> FloatArray:
        """Return T at a = 0, before the bounds."""
        # Without a weight all rows have the same.
        eta = self.bias - self.weight * (margin if self.weight else margin[:1])
        return np.asarray(self.temperature * np.logaddexp(0.0, eta))

    def confidences(self, block: Block, offsets: Sequence[float] = WARMER) -> FloatArray:
        """Return the confidences of a block at some offsets, shape (offsets, n)."""
        margin = self.of(block)
        sure = [block.confidence(1.0 / self.at(margin, a)) for a in offsets]
        # float32 kernels may round a sure row to just above 1.
        return np.minimum(np.stack(sure), 1.0)


def fit_bias(shape: Shape, logits: Source, weight: FloatArray, accuracy: float) -> float:
    """Return the b with which the mean confidence of rows is their accuracy, as near as it can."""
    from scipy.optimize import brentq  # here: predicting, and `import wildcal`, need no solver

    all_weights = total(weight)

    def too_sure(b: float) -> float:
        tried = replace(shape, bias=b)

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
