"""What the method sees of a row: energy, margin and confidence, in units of the clean rows."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Logits
from wildcal.core.block import Block
from wildcal.core.blocks import joined, map_blocks

# Rows further from the clean ones than this many standard deviations count as this far.
LARGEST: Final = 6.0
ENERGY, MARGIN, CONFIDENCE = range(3)
# Less than this part of the mean is the rounding of float32.
_LEAST_SPREAD: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Units:
    """Mean and standard deviation of each feature on clean rows, and their temperature."""

    mean: FloatArray
    std: FloatArray
    temperature: float
    """The one that temperature scaling gives the clean rows."""

    def of(self, raw: FloatArray, feature: int) -> FloatArray:
        """Return a feature in units of the clean rows, within limits."""
        with np.errstate(over="ignore"):  # a row of 1e300 is simply far away
            scaled = (raw - self.mean[feature]) / self.std[feature]
        return np.asarray(np.clip(scaled, -LARGEST, LARGEST))

    def energy(self, block: Block) -> FloatArray:
        """Return the logsumexp of each row."""
        return self.of(-block.energy(), ENERGY)

    def margin(self, block: Block) -> FloatArray:
        """Return the largest logit minus the second."""
        return self.of(block.margin(), MARGIN)

    def confidence(self, block: Block) -> FloatArray:
        """Return the confidence after temperature scaling."""
        return self.of(confidence(block, self.temperature), CONFIDENCE)


def confidence(block: Block, temperature: float) -> FloatArray:
    """Return the largest softmax probability of each row at one temperature."""
    return block.confidence(np.full(block.n, 1.0 / temperature))


def raw_features(logits: Logits, temperature: float) -> tuple[FloatArray, Labels]:
    """Return the three features, shape (3, n), and the predicted class of each row."""

    def look(block: Block) -> tuple[FloatArray, FloatArray, FloatArray, Labels]:
        sure = confidence(block, temperature)
        return -block.energy(), block.margin(), sure, block.pred()

    energy, margin, sure, pred = map_blocks(logits, look, joined)
    return np.stack([energy, margin, sure]), pred


def clean_units(features: FloatArray, weight: FloatArray, temperature: float) -> Units:
    """Return the units that clean rows give; a feature that is the same everywhere has unit 1.

    Infinite margins, of rows where all classes but one are ruled out, are left out.
    """
    mean, std = np.zeros(len(features)), np.ones(len(features))
    for i, raw in enumerate(features):
        inside = np.isfinite(raw) & (weight > 0)
        if not inside.any():
            continue
        # Far from 1 the squares would overflow.
        size = max(1.0, float(np.abs(raw[inside]).max()))
        values, share = raw[inside] / size, weight[inside] / weight[inside].sum()
        center = float(values @ share)
        spread = float(np.sqrt(np.square(values - center) @ share))
        mean[i] = center * size
        std[i] = spread_or_one(mean[i], spread * size)
    return Units(mean, std, temperature)


def spread_or_one(mean: float, spread: float) -> float:
    """Return a standard deviation, and 1 where it is no more than rounding."""
    return spread if spread > _LEAST_SPREAD * max(1.0, abs(mean)) else 1.0
