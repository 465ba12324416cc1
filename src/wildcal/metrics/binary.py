"""Two classes: errors of the probability of class 1, its slope and intercept, and a test.

Metrics read one column, the probability p of class 1 with the sign of the label: + for class 1.
"""

import math

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray, Labels, Proba

# Beyond, classes are told apart without a mistake, and no slope is the best.
_STEEPEST = 100.0
_STEPS = 50
_SMALLEST = 1e-12


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
    return float(_fitted(column, free=True)[1])


def calibration_intercept(column: FloatArray) -> float:
    """Return a of logit P(y = 1) = a + logit(p): calibration in the large, 0 where calibrated.

    Above 0 class 1 is more frequent than its probabilities say.
    """
    return float(_fitted(column, free=False)[0])


def drawn_line(column: FloatArray, counts: FloatArray, *, free: bool) -> FloatArray:
    """Return slope (free) or intercept of resampled rows, a value for each column of counts.

    One Newton step from the line of all rows, with the weights of a sample: as near to its own line
    as two samples of the size are to each other, squared.
    """
    y, p = unsigned(column)
    x = _logits(p)
    line = _fitted(column, free=free)
    fit = _sigmoid(line[0] + line[1] * x)
    gap, v = y - fit, fit * (1 - fit)
    if not free:
        return np.asarray(line[0] + (gap @ counts) / (v @ counts))
    g0, g1 = gap @ counts, (gap * x) @ counts
    h00, h01, h11 = v @ counts, (v * x) @ counts, (v * x * x) @ counts
    return np.asarray(line[1] + (h00 * g1 - h01 * g0) / (h00 * h11 - h01**2))


def _fitted(column: FloatArray, *, free: bool) -> FloatArray:
    """Return (a, b) of the maximum likelihood; b is 1 unless it is free, NaN if there is none."""
    y, p = unsigned(column)
    if y.all() or not y.any():
        return np.full(2, math.nan)
    x = _logits(p)
    line = np.array([0.0, 1.0])
    for _ in range(_STEPS):
        fit = _sigmoid(line[0] + line[1] * x)
        gap, v = y - fit, np.maximum(fit * (1 - fit), _SMALLEST)
        if free:
            hessian = np.array([[v.sum(), (v * x).sum()], [(v * x).sum(), (v * x * x).sum()]])
            if np.linalg.det(hessian) < _SMALLEST:
                return np.full(2, math.nan)
            step = np.linalg.solve(hessian, np.array([gap.sum(), (gap * x).sum()]))
        else:
            step = np.array([gap.sum() / v.sum(), 0.0])
        step = np.clip(step, -2, 2)  # far from the solution the quadratic is no guide
        line = line + step
        if np.abs(line).max() > _STEEPEST:
            return np.full(2, math.nan)
        if np.abs(step).max() < 1e-10:
            break
    return line


def _logits(p: FloatArray) -> FloatArray:
    p = np.clip(p, _SMALLEST, 1 - _SMALLEST)
    return np.asarray(np.log(p) - np.log1p(-p))


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))
