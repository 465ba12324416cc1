"""Penalized multinomial logistic regression: softmax(W x + b), W diagonal or full.

Vector, matrix, Dirichlet and structured scaling differ in the features x of the logits, in the
shape of W and in the penalty. The objective, cross-entropy + sum(penalty * (theta - center)^2),
is convex. theta has shape (n_classes, 2), the diagonal of W and b, or (n_classes, n_classes + 1),
W and b.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators.temperature import TemperatureFit
from wildcal.core.arrays import BLOCK_ENTRIES, LOG_TINY, Array, BoolArray, FloatArray, IntArray
from wildcal.core.calibrator import FitInfo
from wildcal.core.exceptions import InputError
from wildcal.core.optimize import Solution
from wildcal.core.validation import Samples, absent_class_warnings, check_number

# Part of the largest logit: well above the rounding of float32.
_RELATIVE_FLOOR: Final = 1e-5
# Samples of a block, at least: each block reads the whole matrix W.
_MIN_BLOCK: Final = 1000
# A full matrix of more classes takes gigabytes.
_MAX_CLASSES: Final = 6500
_MAX_ITER: Final = 100
# Hessian products of a step: many for small problems, fewer if a product takes seconds.
_MAX_CG, _MIN_CG, _CG_BUDGET = 500, 30, 1e11
# Smallest curvature of a coordinate; where all samples are certain, nothing curves.
_MIN_CURVATURE: Final = 1e-6
# The fit ends with the step that is expected to lower the objective by less than this part.
_TOLERANCE: Final = 1e-6
_RESOLUTION: Final = 1e-13


def logit_features(xp: Any, z: Array, floor: float) -> Array:
    """Return logits, those more than -floor below the largest one of the sample raised to that.

    A masked class then has a feature of the size of the others. The distance grows with the size of
    the logits, so that it never falls below their rounding.
    """
    top = xp.max(z, axis=-1, keepdims=True)
    return xp.maximum(z, top + floor - _RELATIVE_FLOOR * xp.abs(top))


def logit_floor(temperature: float) -> float:
    """Return the logit, relative to the largest, where softmax(z / T) ends in float32."""
    return LOG_TINY * max(1.0, temperature)


def diagonal_penalty(data: Samples, ridge: float, scale: float) -> tuple[FloatArray, FloatArray]:
    """Return penalty and center of ``ridge K / N (|diag(W) - scale|^2 + |b|^2)``, W diagonal."""
    center = np.repeat([[scale, 0.0]], data.n_classes, axis=0)
    return np.full_like(center, ridge * data.n_classes / data.weight.sum()), center


def matrix_penalty(
    data: Samples, ridge: float, scale: float, off_diagonal: float | None, intercept: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return penalty and center of a full theta that is pulled to W = scale * identity, b = 0.

    The weight of the diagonal is ridge K / N, the default off the diagonal K (K - 1) / N, that of
    the intercepts K / N.
    """
    k = data.n_classes
    if k > _MAX_CLASSES:
        raise InputError(
            f"X must have at most {_MAX_CLASSES} classes for a full matrix, got {k}. Try vector,"
            " svs or ts.",
            "X",
        )
    share = k / data.weight.sum()
    penalty = np.empty((k, k + 1))
    penalty[:] = share * (k - 1) if off_diagonal is None else off_diagonal
    penalty[:, -1] = share if intercept is None else intercept
    np.fill_diagonal(penalty, ridge * share)
    return penalty, scale * np.eye(k, k + 1)


def check_penalty(**options: float | None) -> None:
    """Raise unless each weight of a penalty is a number of at least 0, or None."""
    for name, value in options.items():
        if value is not None:
            check_number(name, value, 0.0, 1e12)


def fit_softmax_regression(
    x: FloatArray,
    data: Samples,
    penalty: FloatArray,
    center: FloatArray,
    ts: TemperatureFit,
    *,
    start: FloatArray | None = None,
    fixed: BoolArray | None = None,
    tied: bool = False,
) -> tuple[FloatArray, FloatArray, FitInfo]:
    """Return the W and b of the smallest penalized cross-entropy of softmax(W x + b).

    Of a diagonal W the diagonal is returned. The record of the fit is the third element.

    Parameters
    ----------
    x
        Features, shape (n_samples, n_classes).
    data
        Labels and weights.
    penalty, center
        Weights of the squares, and the theta that they pull to; arrays of the shape of theta.
    ts
        Temperature scaling of the same samples.
    start
        Where to start; default: `center`.
    fixed
        Entries of theta that keep the value of `start`.
    tied
        All classes have one slope: the entries of a diagonal W are equal.
    """
    start = center if start is None else start
    with np.errstate(over="ignore", invalid="ignore"):
        objective = _Objective(x, data, penalty, center)
        before, found = _minimize(objective, start, _Coordinates(objective, start, fixed, tied))
    weights = found.x[:, 0] if objective.diagonal else found.x[:, :-1]
    info = ts.next_info("nll + penalty", before, found, *absent_class_warnings(data))
    return weights.copy(), found.x[:, -1].copy(), info


class _Objective:
    """The objective with its gradient, and Hessian products at the last theta.

    Values and gradients are float64. Hessian products only direct the steps and are float32. Arrays
    of samples have shape (n_classes, n_samples): sums over classes then add whole rows.
    """

    def __init__(self, x: FloatArray, data: Samples, penalty: FloatArray, center: FloatArray):
        self.penalty, self.center = penalty, center
        self.diagonal = center.shape[1] == 2
        n, k = x.shape
        size = max(BLOCK_ENTRIES // k, 1 if self.diagonal else _MIN_BLOCK)
        share = data.weight / data.weight.sum()
        parts = [slice(i, i + size) for i in range(0, n, size)]
        self.blocks = [(x[part].T.copy(), data.y[part], share[part]) for part in parts]
        self._blocks32 = [
            (b.astype(np.float32), (1 / w).astype(np.float32)) for b, _, w in self.blocks
        ]
        self._proba32: list[NDArray[np.float32]] = []

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective at theta and its gradient."""
        offset = theta - self.center
        value = float((self.penalty * offset * offset).sum())
        gradient = 2 * self.penalty * offset
        self._proba32 = []
        for x, y, weight in self.blocks:
            p, log_loss = self._weighted_proba(theta, x, y, weight)
            value += float(weight @ log_loss)
            self._proba32.append(p.astype(np.float32))
            p[y, np.arange(len(y))] -= weight
            gradient += self._by_theta(x, p)
        return value, gradient

    def hessian_product(self, direction: FloatArray) -> FloatArray:
        """Return the Hessian times a direction, both of the shape of theta."""
        product = 2 * self.penalty * direction
        direction = direction.astype(np.float32)
        for (x, inverse_weight), p in zip(self._blocks32, self._proba32, strict=True):
            u = self._scores(direction, x)
            u *= p
            u -= p * (u.sum(axis=0) * inverse_weight)
            product += self._by_theta(x, u)
        return product

    def curvature(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the diagonal of the Hessian, and the derivatives by each slope and its b."""
        diagonal, cross = 2 * self.penalty, np.zeros_like(theta)
        for x, y, weight in self.blocks:
            p, _ = self._weighted_proba(theta, x, y, weight)
            p -= p * p / weight
            cross += self._by_theta(x, p)
            diagonal += self._by_theta(x * x, p)
        return diagonal, cross

    def _weighted_proba(
        self, theta: FloatArray, x: FloatArray, y: IntArray, weight: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return probabilities times weights, and the log loss of each sample."""
        s = self._scores(theta, x)
        s -= s.max(axis=0)
        true = s[y, np.arange(len(y))]
        np.exp(s, out=s)
        total = s.sum(axis=0)
        s *= weight / total
        return s, np.log(total) - true

    def _scores(self, theta: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
        s: NDArray[Any] = x * theta[:, :1] if self.diagonal else theta[:, :-1] @ x
        s += theta[:, -1:]
        return s

    def _by_theta(self, x: NDArray[Any], error: NDArray[Any]) -> FloatArray:
        """Return derivatives by theta from those by scores."""
        slopes = np.einsum("ij,ij->i", x, error)[:, None] if self.diagonal else error @ x.T
        return np.column_stack([slopes, error.sum(axis=1)]).astype(np.float64)


class _Coordinates:
    """Coordinates of steps, in which the Hessian at the start has a diagonal of about one.

    A step of a slope also moves b so that the two are uncorrelated, as for centered features.
    """

    def __init__(
        self, objective: _Objective, start: FloatArray, fixed: BoolArray | None, tied: bool
    ):
        diagonal, cross = objective.curvature(start)
        shift = cross[:, :-1] / np.maximum(diagonal[:, -1:], _MIN_CURVATURE)
        # A difference of equal numbers is rounding.
        diagonal[:, :-1] -= np.minimum(shift * cross[:, :-1], (1 - 1e-12) * diagonal[:, :-1])
        unit = 1 / np.sqrt(np.maximum(diagonal, _MIN_CURVATURE))
        if tied:
            unit[:, 0], shift = unit[:, 0].mean(), np.zeros_like(shift)
        if fixed is not None:
            unit, shift = np.where(fixed, 0.0, unit), np.where(fixed[:, -1:], 0.0, shift)
        self.unit, self.shift, self.tied = unit, shift, tied

    def to_theta(self, step: FloatArray) -> FloatArray:
        """Return the change of theta that a step makes."""
        theta = self.unit * step
        if self.tied:
            theta[:, 0] = theta[:, 0].mean()
        theta[:, -1] -= (self.shift * theta[:, :-1]).sum(axis=1)
        return theta

    def gradient(self, by_theta: FloatArray) -> FloatArray:
        """Return derivatives by steps from those by theta."""
        gradient = by_theta.copy()
        gradient[:, :-1] -= self.shift * by_theta[:, -1:]
        gradient *= self.unit
        if self.tied:
            gradient[:, 0] = gradient[:, 0].mean()
        return gradient


def _minimize(
    objective: _Objective, start: FloatArray, coordinates: _Coordinates
) -> tuple[float, Solution]:
    """Return the objective at the start, and its minimum.

    Newton's method, steps by conjugate gradients (Nocedal and Wright, section 7.1).
    """

    def product(step: FloatArray) -> FloatArray:
        return coordinates.gradient(objective.hessian_product(coordinates.to_theta(step)))

    theta, (value, by_theta) = start, objective(start)
    before = value
    cost = sum(x.size for x, _, _ in objective.blocks) * start.shape[1]
    max_cg = int(np.clip(_CG_BUDGET / cost, _MIN_CG, _MAX_CG))
    for n_iter in range(_MAX_ITER):
        gradient = coordinates.gradient(by_theta)
        step, accurate = _conjugate_gradients(product, gradient, max_cg)
        change, expected = coordinates.to_theta(step), -float((gradient * step).sum())
        fraction = 1.0
        while True:
            new_theta = theta + fraction * change
            new, by_new = objective(new_theta)
            limit = value - 1e-4 * fraction * expected + _RESOLUTION * abs(value)
            if new <= limit or fraction < 1e-8:
                break
            fraction /= 2
        small = expected <= _TOLERANCE * value + 1e-14
        if not new <= limit:
            return before, Solution(theta, value, n_iter, small)
        theta, value, by_theta = new_theta, new, by_new
        if small and accurate:
            return before, Solution(theta, value, n_iter + 1, True)
    return before, Solution(theta, value, _MAX_ITER, False)


def _conjugate_gradients(
    product: Callable[[FloatArray], FloatArray], gradient: FloatArray, max_iter: int
) -> tuple[FloatArray, bool]:
    """Return a step that nearly solves product(step) = -gradient, and whether it was reached."""
    step, residual = np.zeros_like(gradient), -gradient
    direction, square = residual, float((residual * residual).sum())
    norm = np.sqrt(square)
    target = (min(0.1, np.sqrt(norm)) * norm) ** 2
    for i in range(max_iter):
        if square <= target:
            return step, True
        image = product(direction)
        curved = float((direction * image).sum())
        if not curved > 0 or not np.isfinite(curved):  # rounding
            return (step, True) if i else (residual, False)
        step = step + (square / curved) * direction
        residual = residual - (square / curved) * image
        last, square = square, float((residual * residual).sum())
        direction = residual + (square / last) * direction
    return step, False
