"""Intervals for metrics, by drawing rows again with replacement."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.core.checks import MOST_BINS, check_count, check_lengths, check_scores
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.metrics.binning import bin_index
from wildcal._old.metrics.inputs import top_label, undefined
from wildcal._old.metrics.interval import (
    Interval,
    PairedDifference,
    basic_interval,
    paired_interval,
    percentile_interval,
)

if TYPE_CHECKING:  # slow to import, and seldom needed
    from numpy.random import Generator

Rows = NDArray[np.int64]


def _replicates(
    statistic: Callable[[Rows], float], n: int, n_boot: int, rng: "Generator | None"
) -> FloatArray:
    rng = np.random.default_rng(0) if rng is None else rng
    count = check_count("n_boot", n_boot, least=2)
    return np.array([statistic(rng.integers(0, n, n)) for _ in range(count)], dtype=np.float64)


def bootstrap(
    statistic: Callable[..., float],
    *arrays: ArrayLike,
    n_boot: int = 1000,
    level: float = 0.95,
    rng: "Generator | None" = None,
) -> Interval:
    """Return the basic bootstrap interval of any statistic of rows.

    Parameters
    ----------
    statistic
        Called as ``statistic(*arrays)`` with the same rows drawn from each array.
    arrays
        One or more arrays of equal length.
    n_boot, level
        Number of replicates and level of the interval.
    rng
        Source of randomness, ``np.random.default_rng(0)`` if left out: same data, same interval.

    Returns
    -------
    Interval
        Replicates on which the statistic is NaN (an AUROC that drew one kind of rows only) are left
        out, without their warnings.

    References
    ----------
    Davison and Hinkley (1997), "Bootstrap methods and their application", chapter 5.

    Examples
    --------
    >>> from wildcal._old.metrics import auroc
    >>> correct = np.array([False, True] * 50)
    >>> result = bootstrap(auroc, correct, np.linspace(0, 1, 100), n_boot=200)
    >>> result.low < result.value < result.high
    True
    """
    columns = [np.asarray(array) for array in arrays]
    n = check_lengths("bootstrap", *columns)
    if n == 0:
        return basic_interval(undefined("bootstrap"), np.empty(0), level, -np.inf, np.inf)
    value = float(statistic(*columns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        drawn = _replicates(
            lambda rows: float(statistic(*(column[rows] for column in columns))), n, n_boot, rng
        )
    return basic_interval(value, drawn, level, -np.inf, np.inf)


def mean_interval(
    per_sample: ArrayLike,
    *,
    n_boot: int = 1000,
    level: float = 0.95,
    rng: "Generator | None" = None,
) -> Interval:
    """Return the interval of a mean over rows: accuracy, NLL, Brier score, confidence.

    Pass what a ``*_per_sample`` function returns, or `correct`, or the confidences. A mean is not
    biased, so this is the percentile interval, which never leaves the range of the values. Options
    as in `bootstrap`.

    Examples
    --------
    >>> result = mean_interval(np.arange(100) < 80)
    >>> result.value, round(result.low, 1), round(result.high, 1)
    (0.8, 0.7, 0.9)
    """
    values = check_scores(per_sample, "per_sample")
    if len(values) == 0:
        return basic_interval(undefined("mean_interval"), np.empty(0), level, -np.inf, np.inf)
    drawn = _replicates(lambda rows: float(values[rows].mean()), len(values), n_boot, rng)
    return percentile_interval(float(values.mean()), drawn, level)


def ece_interval(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    n_bins: int = 15,
    n_boot: int = 1000,
    level: float = 0.95,
    rng: "Generator | None" = None,
) -> Interval:
    """Return the ECE with its debiased value and basic bootstrap interval, inside [0, 1].

    Percentile intervals of a calibration error sit too high, because a resample adds its own noise
    to the absolute gaps; the basic interval turns that around. It still misses a true error of 0,
    where the absolute value has its kink, so `low` is 0 whenever a calibrated model with these
    confidences would show such a value by chance (more than half of 1 - level of the time; gaps
    taken as normal). Large errors are covered a little less often than the level says. First four
    parameters as in `ece`, the rest as in `bootstrap`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 2000)
    >>> result = ece_interval(rng.random(2000) < confidence - 0.1, confidence, n_boot=200)
    >>> result.low < 0.1 < result.high
    True
    """
    n_bins = check_count("n_bins", n_bins, most=MOST_BINS)
    correct, confidence = top_label(y, proba, pred)
    if len(confidence) == 0:
        return basic_interval(undefined("ece_interval"), np.empty(0), level, 0, 1)
    rng = np.random.default_rng(0) if rng is None else rng
    of_rows = _ece_of_rows(correct, confidence, n_bins)
    drawn = _replicates(of_rows, len(confidence), n_boot, rng)
    whole = basic_interval(of_rows(None), drawn, level, 0, 1)
    chance = share_by_chance(confidence, whole.value, n_bins, n_boot, rng)
    return replace(whole, low=0.0) if chance > (1 - level) / 2 else whole


def share_by_chance(
    confidence: FloatArray, value: float, n_bins: int, n_draws: int, rng: "Generator"
) -> float:
    """Return how often a calibrated model with these confidences would show an ECE of `value`."""
    variance = np.bincount(bin_index(confidence, n_bins), confidence * (1 - confidence), n_bins)
    noise = np.abs(rng.normal(scale=np.sqrt(variance), size=(n_draws, n_bins)))
    return float(np.mean(noise.sum(axis=1) / len(confidence) >= value))


def paired_difference(
    correct_a: ArrayLike,
    confidence_a: ArrayLike,
    correct_b: ArrayLike,
    confidence_b: ArrayLike,
    *,
    n_bins: int = 15,
    n_boot: int = 1000,
    level: float = 0.95,
    rng: "Generator | None" = None,
) -> PairedDifference:
    """Return the interval of ECE(a) - ECE(b), two methods on the same rows in the same order.

    Both are measured on the same resampled rows, so what they share cancels and the interval is
    much narrower than two separate ones suggest. `probability_a_better` is the share of debiased
    replicates in which a has the lower ECE, ties counting half. Each pair may also be (y, proba).
    Options as in `bootstrap`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 2000)
    >>> correct = rng.random(2000) < confidence
    >>> result = paired_difference(correct, confidence, correct, confidence**2, n_boot=200)
    >>> result.high < 0, result.probability_a_better
    (True, 1.0)
    """
    n_bins = check_count("n_bins", n_bins, most=MOST_BINS)
    check_lengths("a and b", np.asarray(confidence_a), np.asarray(confidence_b))
    a, b = top_label(correct_a, confidence_a), top_label(correct_b, confidence_b)
    if len(a[0]) == 0:
        empty = basic_interval(undefined("paired_difference"), np.empty(0), level, -1, 1)
        return PairedDifference(**empty.to_dict(), probability_a_better=float("nan"))
    n, ece_a, ece_b = len(a[0]), _ece_of_rows(*a, n_bins), _ece_of_rows(*b, n_bins)
    value = ece_a(None) - ece_b(None)
    drawn = _replicates(lambda rows: ece_a(rows) - ece_b(rows), n, n_boot, rng)
    return paired_interval(value, drawn, level)


def _ece_of_rows(
    correct: BoolArray, confidence: FloatArray, n_bins: int
) -> Callable[[Rows | None], float]:
    """Return a function: the ECE of some rows, or of all for None. Rows are binned only once."""
    gap, index = confidence - correct, bin_index(confidence, n_bins)

    def of_rows(rows: Rows | None) -> float:
        where, weight = (index, gap) if rows is None else (index[rows], gap[rows])
        return float(np.abs(np.bincount(where, weight, n_bins)).sum() / len(where))

    return of_rows
