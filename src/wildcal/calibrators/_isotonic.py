"""Isotonic regression, and shared functions of methods with tables of scores."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import Array, FloatArray

# Rounds a float64 to 40 bits (Veltkamp): equal scores must not differ by the order of a sum.
_SPLITTER: Final = 2.0**13 + 1
# Smaller scores count as zero: float32 does not have them, and slopes between them overflow.
_TINY: Final = 1e-37
# Weight of the softmax added to f: it keeps the order of classes on a plateau (Zhang et al., 2020).
_TIE_BREAKER: Final = 1e-9


def group_ties(
    x: FloatArray, target: NDArray[Any], weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return distinct scores in increasing order, their mean target and their weight."""
    wide = _SPLITTER * x
    x = wide - (wide - x)
    x[np.abs(x) < _TINY] = 0.0
    order = np.argsort(x)
    x, target, weight = x[order], target[order], weight[order]
    first = np.flatnonzero(np.append(True, x[1:] > x[:-1]))
    if len(first) == len(x):
        return x, target.astype(np.float64), weight
    total = np.add.reduceat(weight, first)
    return x[first], np.add.reduceat(weight * target, first) / total, total


def fit_isotonic(
    x: FloatArray, target: NDArray[Any], weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return thresholds and values of the f that minimizes sum of weight * (f(x) - target)^2.

    f does not decrease; it is linear between thresholds and constant outside. Thresholds are the
    first and the last score of each constant piece, as in scikit-learn.

    >>> x, target = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([0, 1, 1, 0, 1])
    >>> thresholds, values = fit_isotonic(x, target, np.ones(5))
    >>> thresholds.round(1), values.round(3)
    (array([0.1, 0.2, 0.4, 0.5]), array([0.   , 0.667, 0.667, 1.   ]))
    """
    from scipy.optimize import isotonic_regression  # here: prediction does not need SciPy

    x, mean, total = group_ties(x, target, weight)
    f = np.clip(isotonic_regression(mean, weights=total).x, 0.0, 1.0)
    rises = f[1:] > f[:-1]
    keep = np.append(True, rises) | np.append(rises, True)
    return x[keep], f[keep]


def normalized(xp: Any, f: Array, p: Array) -> Array:
    """Return f + 1e-9 p divided by its sum; uniform where f is zero for all classes."""
    total = xp.sum(f, axis=-1, keepdims=True)
    f = xp.where(total == 0, xp.ones_like(f), f + _TIE_BREAKER * p)  # NaN stays NaN
    return f / xp.sum(f, axis=-1, keepdims=True)
