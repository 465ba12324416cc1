"""The accuracy of a window without labels: its mean calibrated confidence, with an interval."""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from wildcal._old.core.arrays import FloatArray

# The 97.5 % quantile of the normal distribution: intervals of 95 %.
Z95: Final = 1.959963984540054


@dataclass(frozen=True, slots=True)
class AccuracyEstimate:
    """How many rows of the window are right, as far as their confidence tells.

    The interval is wide on purpose, to hold at least 95 % of the time under shifts that were not
    tuned on; docs/stream.md shows how often it did. It is 0 to 1, unknown, where the calibrator was
    fitted without shifted environments.
    """

    value: float
    low: float
    high: float
    n: int
    """Rows in the window."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dictionary."""
        return asdict(self)


def accuracy_interval(
    n: FloatArray, total: FloatArray, variance: FloatArray, model_error: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean confidence of windows of n rows, and the ends of its interval.

    `total` is Σ p and `variance` Σ p (1 - p), the variance of the number of rows that are right.
    `model_error` is how far mean confidence and accuracy may be apart beyond that:
    low, high = p̄ ± 1.96 √(Σ p (1 - p) / n² + error²), within 0 and 1. The error is chosen wide, so
    this is at least 95 %; where it is infinite, unknown, the interval is 0 to 1.
    """
    value = total / n
    reach = Z95 * np.sqrt(variance / n**2 + model_error**2)
    return value, np.maximum(value - reach, 0.0), np.minimum(value + reach, 1.0)
