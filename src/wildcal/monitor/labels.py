"""Delayed labels: realized accuracy, and a test of whether confidence is still calibrated."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from wildcal.core.arrays import FloatArray
from wildcal.monitor.ring import N_BUCKETS, Ring

N_BINS: Final = 15
WINDOW: Final = 1_000
"""Accuracy and ECE are those of so many labels, at most."""
TOLERANCE: Final = 0.05
"""Difference of confidence and accuracy that the test allows."""
MAX_PENDING: Final = 100_000
"""Samples that are kept until their labels arrive."""
ERROR: Final = 0.01
"""Probability of the result "not calibrated" for a calibrated stream, at any time."""

# Bounds of the ranges of confidence, each with its bets, and parts of the largest bet.
_RANGES: Final = (0.5, 0.9)
_PARTS: Final = np.array([0.9, 0.4, 0.15])
_N_BETS: Final = 2 * len(_PARTS)
# The interval of the gap is narrowest, relative to the best one, at this many labels.
_NARROWEST: Final = 50.0

Predictions: TypeAlias = list[list[Any]]
"""Predicted classes, and their confidences."""


@dataclass
class CalibrationTest:
    """Test of "confidence is within a tolerance of accuracy", valid at any time.

    A sample with confidence p is right (y = 1) or not. A bet multiplies its wealth by
    1 + a (+-(p - y) - tolerance), a fair game or worse while the statement holds. There are bets
    for three ranges of confidence. A part 1 / (t (t + 1)) of the wealth is bet from label t on.
    """

    n: int = 0
    gap: float = 0.0
    """Sum of p - y."""
    wealth: FloatArray = field(default_factory=lambda: np.zeros((len(_RANGES) + 1, _N_BETS)))
    highest: float = 1.0

    def update(self, confidence: FloatArray, correct: FloatArray) -> None:
        """Add labels in the order of their arrival."""
        over = confidence - correct
        signed = np.concatenate([np.outer(over, _PARTS), np.outer(-over, _PARTS)], axis=1)
        factors = 1 + (signed - TOLERANCE * np.tile(_PARTS, 2)) / (1 + TOLERANCE)
        for i, part in enumerate(np.digitize(confidence, _RANGES).tolist()):
            self.n += 1
            self.wealth += 1 / (self.n * (self.n + 1))
            self.wealth[part] *= factors[i]
            np.minimum(self.wealth, 1e100, out=self.wealth)
            self.highest = max(self.highest, float(self.wealth.mean()) + 1 / (self.n + 1))
        self.gap += float(over.sum())

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of mean confidence minus accuracy; 99 % at all times at once."""
        if not self.n:
            return -1.0, 1.0
        spread = self.n / 4 + _NARROWEST
        reach = np.sqrt(spread * np.log(spread / _NARROWEST / ERROR**2)) / self.n
        mean = self.gap / self.n
        return max(-1.0, float(mean - reach)), min(1.0, float(mean + reach))

    @property
    def result(self) -> str:
        """One of "not calibrated", "calibrated" (within twice the tolerance), "too few labels"."""
        if self.highest >= 1 / ERROR:
            return "not calibrated"
        low, high = self.interval
        within = -2 * TOLERANCE <= low and high <= 2 * TOLERANCE
        return "calibrated" if within else "too few labels"


@dataclass
class DelayedLabels:
    """Predictions that wait for their labels, and statistics of the labels that arrived.

    Parameters
    ----------
    buckets
        For each of 15 bins of confidence: samples, sum of the confidence p, right predictions, sum
        of p (1 - p); buckets of 50 labels.
    n
        Labels in all.
    test
        Of the labels since `restart_test`.
    pending
        Predicted classes and confidences by id, the oldest first.
    """

    buckets: Ring = field(default_factory=lambda: Ring(np.zeros((N_BUCKETS, N_BINS, 4))))
    n: int = 0
    test: CalibrationTest = field(default_factory=CalibrationTest)
    pending: dict[str, Predictions] = field(default_factory=dict)
    n_pending: int = 0

    def remember(self, key: str, predicted: list[int], confidence: list[float]) -> None:
        """Keep the predictions of an id; those of an earlier one with that id are forgotten."""
        self.forget(key)
        self.pending[key] = [predicted, confidence]
        self.n_pending += len(predicted)
        while self.n_pending > MAX_PENDING:
            self.forget(next(iter(self.pending)))

    def forget(self, key: str) -> Predictions:
        """Remove an id and return its predictions, empty lists if it is not known."""
        found = self.pending.pop(key, [[], []])
        self.n_pending -= len(found[0])
        return found

    def add(self, confidence: Sequence[float], correct: Sequence[bool]) -> None:
        """Add labelled samples: their confidence, and whether the prediction was right."""
        p, y = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
        bins = np.minimum((p * N_BINS).astype(np.int64), N_BINS - 1)
        columns = np.stack([np.ones(len(p)), p, y, p * (1 - p)], axis=1)
        for sums, part in self.buckets.fill(len(p), WINDOW // N_BUCKETS):
            np.add.at(sums, bins[part], columns[part])
        self.n += len(p)
        self.test.update(p, y)

    def restart_test(self) -> None:
        """Restart the test: labels of samples before a drift do not apply to those after it."""
        if self.test.result != "not calibrated":
            self.test = CalibrationTest()

    def status(self) -> dict[str, Any]:
        """Return the numbers of the last 1,000 labels, and the result of the test."""
        if not self.n:
            return {}
        n, p, y, variance = self.buckets.sums.sum(axis=0).T
        return {
            "n_labels": self.n,
            "realized_accuracy": float(y.sum() / n.sum()),
            "ece": float(np.abs(p - y).sum() / n.sum()),
            "noise_floor": float(np.sqrt(2 / np.pi * variance).sum() / n.sum()),
            "calibration": self.test.result,
        }

    def merged(self, other: "DelayedLabels") -> "DelayedLabels":
        """Return both together; the wealth of the tests is averaged."""
        a, b = self.test, other.test
        test = CalibrationTest(
            a.n + b.n, a.gap + b.gap, (a.wealth + b.wealth) / 2, max(a.highest, b.highest)
        )
        buckets = self.buckets.merged(other.buckets)
        new = DelayedLabels(buckets, self.n + other.n, test, dict(self.pending), self.n_pending)
        for key, (predicted, confidence) in other.pending.items():
            new.remember(key, predicted, confidence)
        return new
