"""Two classes: errors of the probability of class 1, its slope and intercept, and a test.

Metrics read one column, the probability p of class 1 with the sign of the label: + for class 1.
"""

import math

import numpy as np

from wildcal._old.core.arrays import BoolArray, FloatArray, Labels, Proba
from wildcal._old.core.one_thread import one_thread

# For samples in which classes are told apart without a mistake: no slope is the best.
_STEEPEST = 100.0
_STEPS = 60
_HALVINGS = 30
_CLOSE = 1e-9
"""A step of this size is the last: the next would be its square."""
_ROUNDING = 1e-13
"""Likelihoods, and steps, that differ by less are the same."""
_SMALLEST = 1e-12
# Rows times samples that are looked at together: a few tens of megabytes.
_NUMBERS = 1 << 20


def signed_rows(y: Labels, proba: Proba, pred: Labels) -> FloatArray:
    """Return p of class 1, negative (or -0) where the label is class 0.

    >>> signed_rows(np.array([1, 0]), np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([1, 0])).tolist()
    [0.8, -0.1]
    """
    return np.copysign(proba[:, 1].astype(np.float64), np.where(y == 1, 1.0, -1.0))


def unsigned(column: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return whether each row is of class 1, and its probability."""
    return ~np.signbit(column), np.abs(column)


def spiegelhalter_z(column: FloatArray) -> float:
    r"""Return Spiegelhalter's statistic, standard normal where probabilities are calibrated.

    .. math:: z = Σ (y - p)(1 - 2p) / \sqrt{Σ (1 - 2p)^2 p (1 - p)}

    Beyond ±1.96 chance is an excuse in 5 % of samples. NaN where all p are 0, 1/2 or 1.
    """
    y, p = unsigned(column)
    variance = float(np.sum((1 - 2 * p) ** 2 * p * (1 - p)))
    total = float(np.sum((y - p) * (1 - 2 * p)))
    return total / math.sqrt(variance) if variance > 0 else math.nan


def calibration_slope(column: FloatArray) -> float:
    """Return b of the logistic regression logit P(y = 1) = a + b logit(p); 1 where calibrated.

    Below 1 probabilities are too extreme. NaN where one class is missing or all is told apart.
    """
    return _alone(column, free=True)


def calibration_intercept(column: FloatArray) -> float:
    """Return a of logit P(y = 1) = a + logit(p): calibration in the large, 0 where calibrated.

    Above 0 class 1 is more frequent than its probabilities say. NaN where one class is missing.
    """
    return _alone(column, free=False)


def drawn_line(column: FloatArray, counts: FloatArray, *, free: bool) -> FloatArray:
    """Return slope (free) or intercept of resampled rows, a value for each column of counts.

    A sample that has no such line, because all is told apart in it, gets the steepest.
    """
    y, p = unsigned(column)
    x = _logits(p)
    together = max(1, _NUMBERS // len(x))
    parts = [
        _lines(x, y, counts[:, i : i + together], free=free)
        for i in range(0, counts.shape[1], together)
    ]
    return np.concatenate(parts)


def _alone(column: FloatArray, *, free: bool) -> float:
    y, p = unsigned(column)
    if y.all() or not y.any():
        return math.nan
    apart = p[~y].max() <= p[y].min() or p[y].max() <= p[~y].min()
    if free and apart:  # the steeper the likelier
        return math.nan
    return float(drawn_line(column, np.ones((len(column), 1)), free=free)[0])


@one_thread()
def _lines(x: FloatArray, y: BoolArray, counts: FloatArray, *, free: bool) -> FloatArray:
    """Return b, or with b = 1 the a, of largest likelihood for all samples."""
    found = _slopes(x, y, counts) if free else _intercepts(x, y, counts)
    side = _apart(x, y, counts) if free else _one_class(y, counts)
    return np.where(side == 0, np.clip(found, -_STEEPEST, _STEEPEST), side * _STEEPEST)


def _intercepts(x: FloatArray, y: BoolArray, counts: FloatArray) -> FloatArray:
    """Return the a at which as many rows are of class 1 as are expected: they rise with it.

    By Newton's steps, and by halving where these leave what is known or do not get shorter: rows
    that are certain have next to no slope, and lead astray.
    """
    n = counts.shape[1]
    low, high = np.full(n, -_STEEPEST), np.full(n, _STEEPEST)
    a, last, ones = np.zeros(n), np.full(n, 2 * _STEEPEST), counts[y].sum(axis=0)
    for _ in range(_STEPS):
        fit = 0.5 + 0.5 * np.tanh((a + x[:, None]) / 2)
        missing = ones - (counts * fit).sum(axis=0)
        slope = np.maximum((counts * fit * (1 - fit)).sum(axis=0), _SMALLEST)
        low, high = np.where(missing > 0, a, low), np.where(missing > 0, high, a)
        there = a + missing / slope
        halve = (there < low) | (there > high) | (np.abs(there - a) > np.abs(last) / 2)
        there = np.where(halve, (low + high) / 2, there)
        last, a = there - a, there
        if np.abs(last).max() < _ROUNDING:  # halving gains a bit a step, and no more
            break
    return a


def _slopes(x: FloatArray, y: BoolArray, counts: FloatArray) -> FloatArray:
    """Return the b of largest likelihood, by Newton's method."""
    n = counts.shape[1]
    a, b = np.zeros(n), np.zeros(n)
    likely, fit = _likely(x, y, counts, a, b)
    for _ in range(_STEPS):
        gap, v = counts * (y[:, None] - fit), counts * np.maximum(fit * (1 - fit), _SMALLEST)
        g0, h00 = gap.sum(axis=0), v.sum(axis=0)
        g1, h01, h11 = x @ gap, x @ v, (x * x) @ v
        det = np.maximum(h00 * h11 - h01**2, _SMALLEST)
        up, turn = (h11 * g0 - h01 * g1) / det, (h00 * g1 - h01 * g0) / det
        # Far from the solution the quadratic is no guide, and whole steps may go round in circles.
        part = np.ones(n)
        for _ in range(_HALVINGS):
            new_likely, fit = _likely(x, y, counts, a + part * up, b + part * turn)
            worse = new_likely < likely - _ROUNDING * np.abs(likely)
            if not worse.any():
                break
            part[worse] /= 2
        else:  # no shorter step is better either: such a sample stays where it is
            part[worse] = 0.0
            new_likely, fit = _likely(x, y, counts, a + part * up, b + part * turn)
        a, b, likely = a + part * up, b + part * turn, new_likely
        if max(np.abs(up).max(), np.abs(turn).max()) < _CLOSE:
            break
    return b


def _likely(
    x: FloatArray, y: BoolArray, counts: FloatArray, a: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the log likelihood of each line, and what it says of every row."""
    at = a + x[:, None] * b
    small = np.exp(-np.abs(at))
    fit = np.where(at > 0, 1.0, small) / (1 + small)
    miss = np.maximum(np.where(y[:, None], -at, at), 0.0) + np.log1p(small)
    return -np.sum(counts * miss, axis=0), fit


def _apart(x: FloatArray, y: BoolArray, counts: FloatArray) -> FloatArray:
    """Return 1 for samples whose class 1 lies above all of class 0, -1 where below, else 0."""

    def ends(mine: BoolArray) -> tuple[FloatArray, FloatArray]:
        some = (counts > 0) & mine[:, None]
        low = np.where(some, x[:, None], np.inf).min(axis=0)
        return low, np.where(some, x[:, None], -np.inf).max(axis=0)

    (low0, high0), (low1, high1) = ends(~y), ends(y)
    return np.where(high0 <= low1, 1.0, np.where(high1 <= low0, -1.0, 0.0))


def _one_class(y: BoolArray, counts: FloatArray) -> FloatArray:
    """Return 1 for samples of class 1 alone, -1 for those of class 0, else 0."""
    zeros, ones = counts[~y].sum(axis=0), counts[y].sum(axis=0)
    return np.where(zeros == 0, 1.0, np.where(ones == 0, -1.0, 0.0))


def _logits(p: FloatArray) -> FloatArray:
    p = np.clip(p, _SMALLEST, 1 - _SMALLEST)
    return np.asarray(np.log(p) - np.log1p(-p))
