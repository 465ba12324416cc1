"""The reliability table: confidence against accuracy, bin by bin."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Mean confidence and accuracy in each bin (edges[b], edges[b + 1]].

    Every bin has its place; where `count` is 0, the other columns are NaN. `low` and `high` are
    Wilson score intervals of the accuracy at `level`, which stay inside [0, 1] and are honest for
    small counts.
    """

    edges: FloatArray
    count: NDArray[np.int64]
    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    level: float

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.count.sum())

    @property
    def ece(self) -> float:
        """The expected calibration error, Σ_b count_b · |confidence_b - accuracy_b| / n."""
        filled = self.count > 0
        if not filled.any():
            return float("nan")
        gap = np.abs(self.confidence - self.accuracy)[filled]
        return float(np.average(gap, weights=self.count[filled]))

    @property
    def mce(self) -> float:
        """The largest |confidence_b - accuracy_b| of a non-empty bin."""
        filled = self.count > 0
        if not filled.any():
            return float("nan")
        return float(np.abs(self.confidence - self.accuracy)[filled].max())

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists; an empty bin has None, since JSON knows no NaN."""
        columns = {
            name: [None if np.isnan(value) else value for value in getattr(self, name).tolist()]
            for name in ("confidence", "accuracy", "low", "high")
        }
        edges, count = self.edges.tolist(), self.count.tolist()
        return {"edges": edges, "count": count, **columns, "level": self.level}


def wilson_interval(
    successes: FloatArray, trials: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper Wilson score limits of a proportion; NaN where trials is 0.

    Reference: Wilson (1927), "Probable inference, the law of succession, and statistical
    inference", JASA 22.

    >>> low, high = wilson_interval(np.array([8.0]), np.array([10.0]), 0.95)
    >>> low.round(3), high.round(3)
    (array([0.49]), array([0.943]))
    """
    from statistics import NormalDist  # slow to import, and seldom needed

    z2 = NormalDist().inv_cdf(0.5 + level / 2) ** 2
    n = np.where(trials > 0, trials, np.nan)
    share = successes / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    spread = np.sqrt(share * (1 - share) * z2 / n + (z2 / (2 * n)) ** 2) / (1 + z2 / n)
    return np.maximum(middle - spread, 0.0), np.minimum(middle + spread, 1.0)
