"""Isotonic regression of 0/1 targets, without ever sorting or storing all the pairs.

A pair (x, 0) that follows a pair (x', 1) with x' < x is always pooled with it, so every block of
the solution except the leading zeros begins at a one. It is enough to know, for each gap between
neighboring ones, how many pairs lie in it and which is the last: N numbers instead of N x K.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import BoolArray, FloatArray

Values: TypeAlias = NDArray[np.floating[Any]]
Thresholds: TypeAlias = tuple[FloatArray, FloatArray]
"""Increasing x and non-decreasing f(x); f is linear in between and constant outside."""


class GapCounter:
    """The pairs of an isotonic regression, counted in the gaps between the ones.

    Parameters
    ----------
    ones
        The x of every pair with target 1.
    weight
        Their weights.

    Notes
    -----
    Every pair, those with target 1 included, is then to be handed to `add`, in any pieces. Pairs
    with equal x are one point with their mean target, as in scikit-learn; unlike there, x that
    differ by less than the resolution of their type (1e-6 in float32) are not merged.
    """

    def __init__(self, ones: Values, weight: FloatArray | None = None) -> None:
        self._x, index = np.unique(ones, return_inverse=True)
        self._ones = np.bincount(index, weight, len(self._x)).astype(np.float64)
        self._total = np.zeros(len(self._x))
        self._last = self._x.copy()
        self._largest_zero = -np.inf

    def add(self, x: Values, weight: FloatArray | None = None) -> None:
        """Count pairs; x must be sorted, and of the type of the ones."""
        some, start = self._gaps(x)
        zeros = int(start[0]) if len(some) else len(x)
        if zeros:
            self._largest_zero = max(self._largest_zero, float(x[zeros - 1]))
        if not len(some):
            return
        end = np.append(start[1:], len(x))
        self._total[some] += end - start if weight is None else np.add.reduceat(weight, start)
        self._last[some] = np.maximum(self._last[some], x[end - 1])

    def _gaps(self, x: Values) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the gaps that sorted pairs lie in, and the first pair in each of these."""
        if len(x) < len(self._x):  # whichever is the shorter is looked up in the other
            gap = np.searchsorted(self._x, x, side="right") - 1
            first = np.flatnonzero(np.diff(gap, prepend=-1))
            return gap[first], first
        bounds = np.append(np.searchsorted(x, self._x), len(x))
        some = np.flatnonzero(np.diff(bounds))
        return some, bounds[some]

    def thresholds(self) -> Thresholds:
        """Return the fitted function."""
        # In place, and with the scores as they are: every copy is another 8 bytes for each row.
        total = np.maximum(self._total, self._ones, out=self._total)
        x, y = pool(self._x, self._last, self._ones, total)
        if np.isfinite(self._largest_zero):
            x, y = np.append(self._largest_zero, x), np.append(0.0, y)
        return (x, y) if len(x) else (np.zeros(1), np.zeros(1))


def pool(first: Values, last: Values, positive: FloatArray, total: FloatArray) -> Thresholds:
    """Return the isotonic regression of cells [first, last] with mean target positive / total."""
    from scipy.optimize import isotonic_regression  # here: `import wildcal` stays quick

    if not len(first):
        return first.astype(np.float64), positive
    value = isotonic_regression(positive / total, weights=total).x
    start = np.flatnonzero(np.append(True, value[1:] != value[:-1]))
    end = np.append(start[1:], len(value)) - 1
    mean = np.add.reduceat(positive, start) / np.add.reduceat(total, start)
    y = np.minimum(np.maximum.accumulate(mean), 1.0)  # both only mend rounding
    x = np.column_stack([first[start], last[end]]).ravel().astype(np.float64)
    keep = np.append(True, x[1:] > x[:-1])
    return x[keep], np.repeat(y, 2)[keep]


def fit_isotonic(x: FloatArray, target: BoolArray, weight: FloatArray | None) -> Thresholds:
    """Return the non-decreasing f that minimizes sum of weight * (f(x) - target)².

    >>> fit_isotonic(np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, True, False, True]), None)
    (array([0.1, 0.2, 0.3, 0.4]), array([0. , 0.5, 0.5, 1. ]))
    """
    unique, index = np.unique(x, return_inverse=True)
    weight = np.ones(len(x)) if weight is None else weight
    positive = np.bincount(index, weight * target).astype(np.float64)
    total = np.bincount(index, weight).astype(np.float64)
    return pool(unique, unique, positive, total)


def check_thresholds(x: FloatArray, y: FloatArray) -> None:
    """Raise a ValueError unless x increases, y does not decrease, and both lie in [0, 1]."""
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise ValueError(f"thresholds must be two arrays of one length, got {x.shape}, {y.shape}.")
    if x.min() < 0 or x.max() > 1 or (np.diff(x) <= 0).any():
        raise ValueError("thresholds must increase within [0, 1].")
    if y.min() < 0 or y.max() > 1 or (np.diff(y) < 0).any():
        raise ValueError("values must lie in [0, 1] and not decrease.")
