"""What the method sees of a row: energy, margin and confidence, in units of the clean rows."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Logits
from wildcal.core.blocks import Block, for_each_block

# Rows further from the clean ones than this many standard deviations count as this far.
LARGEST: Final = 6.0
ENERGY, MARGIN, CONFIDENCE = range(3)


@dataclass(frozen=True, slots=True)
class Units:
    """Mean and standard deviation of each feature on clean rows, and their temperature."""

    mean: FloatArray
    std: FloatArray
    temperature: float
    """The one that temperature scaling gives the clean rows."""

    def of(self, raw: FloatArray, feature: int) -> FloatArray:
        """Return a feature in units of the clean rows, within limits."""
        scaled = (raw - self.mean[feature]) / self.std[feature]
        return np.clip(scaled, -LARGEST, LARGEST)

    def energy(self, block: Block) -> FloatArray:
        """Return the logsumexp of each row."""
        return self.of(-block.energy(), ENERGY)

    def margin(self, block: Block) -> FloatArray:
        """Return the largest logit minus the second."""
        return self.of(margin(block), MARGIN)

    def confidence(self, block: Block) -> FloatArray:
        """Return the confidence after temperature scaling."""
        return self.of(confidence(block, self.temperature), CONFIDENCE)


def margin(block: Block) -> FloatArray:
    """Return the largest logit of each row minus the second."""
    top = block.largest(2)
    with np.errstate(invalid="ignore"):
        gap = top[:, 0] - top[:, 1]  # infinite where all other classes are ruled out
    return np.asarray(np.nan_to_num(gap, nan=0.0, posinf=np.finfo(np.float64).max / 4))


def confidence(block: Block, temperature: float) -> FloatArray:
    """Return the largest softmax probability of each row at one temperature."""
    return block.confidence(np.full(block.n, 1.0 / temperature))


def raw_features(logits: Logits, temperature: float) -> tuple[FloatArray, Labels]:
    """Return the three features, shape (3, n), and the predicted class of each row."""
    features, pred = np.empty((3, len(logits))), np.empty(len(logits), np.int64)

    def work(block: Block) -> None:
        features[ENERGY, block.rows] = -block.energy()
        features[MARGIN, block.rows] = margin(block)
        features[CONFIDENCE, block.rows] = confidence(block, temperature)
        pred[block.rows] = block.pred()

    for_each_block(logits, work)
    return features, pred


def clean_units(features: FloatArray, weight: FloatArray, temperature: float) -> Units:
    """Return the units that clean rows give; a feature that is the same everywhere has unit 1."""
    mean = np.average(features, axis=1, weights=weight)
    std = np.sqrt(np.average((features - mean[:, None]) ** 2, axis=1, weights=weight))
    return Units(mean, np.where(std > 1e-12 * np.maximum(1, np.abs(mean)), std, 1.0), temperature)
