"""A number with its interval, and the basic bootstrap interval."""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.checks import check_level

HOLDS_ITS_VALUE: Final = (
    "Intervals allow for the upward bias of a calibration error on few rows, and reach to the value"
    " itself where it lies outside."
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the interval it may lie in.

    `value` is the metric on the data. A calibration error is biased upward on a finite sample;
    `debiased` is 2 · value - mean of the replicates, and `low`, `high` are the basic bootstrap
    interval 2 · value - quantiles of the replicates, which removes the same bias, widened to the
    value itself where that lies outside. `n_boot` is the number of replicates used.
    """

    value: float
    debiased: float
    low: float
    high: float
    level: float
    n_boot: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dictionary."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PairedDifference(Interval):
    """The interval of a difference a - b on the same rows, and the chance that a is lower."""

    probability_a_better: float


def basic_interval(
    value: float, replicates: FloatArray, level: float, low: float, high: float
) -> Interval:
    """Return the basic interval, kept inside the range [low, high] of the metric.

    `HOLDS_ITS_VALUE` says what is done to it.
    """
    used = replicates[~np.isnan(replicates)]
    if len(used) == 0 or np.isnan(value):
        nan = float("nan")
        return Interval(value, nan, nan, nan, level, len(used))
    reflected = 2 * value - used
    tail = (1 - check_level(level)) / 2
    ends = [reflected.mean(), *np.quantile(reflected, [tail, 1 - tail])]
    debiased, bottom, top = np.clip(ends, low, high).tolist()
    value = float(value)
    return Interval(value, debiased, min(bottom, value), max(top, value), level, len(used))


def percentile_interval(value: float, replicates: FloatArray, level: float) -> Interval:
    """Return the interval of what is not biased, such as a mean: quantiles of the replicates."""
    # Quantiles of 2 value - drawn, mirrored, are the quantiles of drawn themselves.
    return basic_interval(value, 2 * value - replicates, level, -np.inf, np.inf)


def paired_interval(value: float, replicates: FloatArray, level: float) -> PairedDifference:
    """Return the interval of a difference a - b whose replicates drew the same rows for both."""
    used = replicates[~np.isnan(replicates)]
    reflected = 2 * value - used
    better = float(np.mean(reflected < 0) + np.mean(reflected == 0) / 2)
    whole = basic_interval(value, used, level, -np.inf, np.inf)
    return PairedDifference(**whole.to_dict(), probability_a_better=better)
