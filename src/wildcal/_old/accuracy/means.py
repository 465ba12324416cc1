"""Estimators that are the mean of something over the rows of the window."""

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np

from wildcal._old.accuracy.estimator import AccuracyEstimator, Reading
from wildcal._old.accuracy.state import WindowState
from wildcal._old.core.arrays import FloatArray, Logits
from wildcal._old.core.stored import FLAG, stored


@dataclass(kw_only=True, eq=False)
class MeanEstimator(AccuracyEstimator):
    """The mean of a number that each row has by itself.

    The bootstrap of a mean need not be drawn: its variance is Σ (v - v̄)² / n².
    """

    mergeable = True

    @abstractmethod
    def _row_values(self, logits: FloatArray, second: FloatArray | None) -> FloatArray:
        """Return a number for each row."""

    def _own_sums(self, logits: FloatArray, second: FloatArray | None) -> FloatArray:
        values = self._row_values(logits, second)
        return np.array([values.sum(), (values**2).sum()])

    def _read_state(self, state: WindowState) -> Reading:
        total, squares = state.sums[2:4]
        return mean_reading(float(total), float(squares), state.n)

    def _read(self, logits: Logits, second: Logits | None) -> Reading:
        return self._read_state(self._state(logits, second))


def mean_reading(total: float, squares: float, n: int) -> Reading:
    """Return the mean of n numbers, and its variance, from their sum and their squares' sum."""
    mean = total / n
    if not np.isfinite(squares):  # too large for a float, so the spread may be of any size
        return Reading(mean, np.inf)
    return Reading(mean, max(0.0, squares / n - mean * mean) / n)


@dataclass(kw_only=True, eq=False)
class Scaled:
    """An option of estimators that read probabilities.

    Parameters
    ----------
    scaled
        Divide the logits by the temperature of the clean rows first ("post T" in the papers).
    """

    scaled: bool = field(default=True, metadata=stored(FLAG))

    def _unit(self, temperature: float) -> float:
        return temperature if self.scaled else 1.0
