"""A number with its interval, and the basic bootstrap interval."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wildcal.core.arrays import FloatArray
from wildcal.core.checks import check_level


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the interval it may lie in.

    `value` is the metric on the data. A calibration error is biased upward on a finite sample;
    `debiased` is 2 · value - mean of the replicates, and `low`, `high` are the basic bootstrap
    interval 2 · value - quantiles of the replicates, which removes the same bias. For a calibration
    error, `value` may therefore lie above `high`. `n_boot` is the number of replicates used.
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
    """Return the basic interval, kept inside the range [low, high] of the metric."""
    used = replicates[~np.isnan(replicates)]
    if len(used) == 0 or np.isnan(value):
        nan = float("nan")
        return Interval(value, nan, nan, nan, level, len(used))
    reflected = 2 * value - used
    tail = (1 - check_level(level)) / 2
    ends = [reflected.mean(), *np.quantile(reflected, [tail, 1 - tail])]
    debiased, bottom, top = np.clip(ends, low, high).tolist()
    return Interval(float(value), debiased, bottom, top, level, len(used))
