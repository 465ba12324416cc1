"""ATC: the share of rows whose score is above a threshold that clean accuracy sets."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal._old.accuracy.means import MeanEstimator, Scaled
from wildcal._old.accuracy.rows import Rows, by_pieces, confidence, negative_entropy
from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.stored import REAL, stored


def clean_threshold(scores: FloatArray, n_errors: int) -> float:
    """Return the score that all but the lowest `n_errors` clean rows reach.

    Where every row is wrong, it is just above all of them.

    >>> clean_threshold(np.array([0.9, 0.5, 0.7]), 1)
    0.7
    """
    if n_errors == len(scores):
        return float(np.nextafter(scores.max(), np.inf))
    return float(np.partition(scores, n_errors)[n_errors])


@dataclass(kw_only=True, eq=False)
class _Threshold(Scaled, MeanEstimator):
    assumes_clean_class_mix = False
    reference = "Garg et al., ICLR 2022"

    threshold_: float = field(init=False, repr=False, metadata=stored(REAL))

    @abstractmethod
    def _score(self, logits: FloatArray) -> FloatArray: ...

    def _learn(self, rows: Rows) -> None:
        clean = rows.of(0)
        n_errors = int((clean.logits.argmax(axis=1) != clean.y).sum())
        self.threshold_ = clean_threshold(by_pieces(clean.logits, self._score), n_errors)

    def _row_values(self, logits: FloatArray, second: FloatArray | None) -> FloatArray:
        return (self._score(logits) >= self.threshold_).astype(np.float64)

    def _describe(self) -> list[str]:
        return [f"A row counts as right where its score is at least {self.threshold_:.4g}."]


@final
@dataclass(kw_only=True, eq=False)
class ThresholdedConfidence(_Threshold):
    """ATC with the maximum confidence: the share of rows with max_k p_k at least t.

    t is the (k + 1)-th smallest confidence of the clean rows, k of which are wrong, so that the
    estimate for the clean rows is their accuracy.

    The authors' script differs: it fits a temperature and does not apply it, its threshold is that
    of the row before, and 0 where no clean row is wrong. Here the formula of the paper stands.
    Saturated confidences tie and move together; `atc-ne` does not suffer from it.
    """

    name = "atc-mc"
    title = "average thresholded confidence, by maximum confidence"
    usual_error = 0.6
    smallest_window = 32

    def _score(self, logits: FloatArray) -> FloatArray:
        return confidence(logits, self._unit(self.temperature_))


@final
@dataclass(kw_only=True, eq=False)
class ThresholdedEntropy(_Threshold):
    """ATC with the negative entropy: the share of rows with Σ p log p at least t.

    t as in `ThresholdedConfidence`. In the authors' script the threshold starts at 0, which no
    negative entropy reaches: without a clean error it says 0 %, here 100 %.
    """

    name = "atc-ne"
    title = "average thresholded confidence, by negative entropy"
    usual_error = 0.35
    smallest_window = 32

    def _score(self, logits: FloatArray) -> FloatArray:
        return negative_entropy(logits, self._unit(self.temperature_))
