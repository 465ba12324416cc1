"""One factor and an offset for every class: the minimum of a tied `DiagonalSoftmax`."""

import numpy as np

from wildcal.calibrators.lbfgs import minimize_lbfgs
from wildcal.calibrators.linear_softmax import NEWTON_PARAMETERS, DiagonalSoftmax, LinearFit
from wildcal.core.arrays import FloatArray
from wildcal.core.objective import Point
from wildcal.core.optimize import minimize_in_box

_STEPS, _PASSES = 100, 300


def minimize_tied(
    free: DiagonalSoftmax, start: float, ridge: float, soft: float, smallest: float
) -> LinearFit:
    """Return the fit of softmax(beta z + b) with soft rows, b pulled towards 0 by ridge |b|².

    Soft rows of weight lam have softmax(z) as their label. As beta z + b is linear in what is
    fitted, they change the loss f by a factor and a linear term alone: with g the gradient of f at
    beta = 1, b = 0, it is (1 + lam) f - lam g · (beta - 1, b).

    Parameters
    ----------
    free
        The loss of a factor for every class, without a penalty.
    start
        Where beta begins.
    smallest
        Beta is at least this.
    """
    k = free.logits.shape[1]
    unit = np.append(1.0, np.zeros(k))
    pull = soft * _tied(free.evaluate(_theta(unit), hessian=False)).gradient if soft else 0.0 * unit
    penalty = np.append(0.0, np.full(k, ridge))

    def objective(x: FloatArray, hessian: bool = True) -> Point:
        at = _tied(free.evaluate(_theta(x), hessian=hessian))
        off = x - unit
        return Point(
            float((1 + soft) * at.value - pull @ off + penalty @ off**2),
            (1 + soft) * at.gradient - pull + 2 * penalty * off,
            (1 + soft) * at.hessian + (np.diag(2 * penalty) if hessian else 0.0),
        )

    def falling(x: FloatArray) -> tuple[float, FloatArray]:
        at = objective(np.maximum(x, lower), hessian=False)
        return at.value, at.gradient

    first = np.append(start, np.zeros(k))
    lower, upper = np.full(k + 1, -np.inf), np.full(k + 1, np.inf)
    lower[0] = smallest
    if 2 * k <= NEWTON_PARAMETERS:
        solution = minimize_in_box(
            objective, first, lower, upper, max_iter=_STEPS, resolution=free.resolution
        )
    else:
        solution = minimize_lbfgs(falling, first, exact=free.exact, max_iter=_PASSES)
    before = objective(first, hessian=False).value
    x = np.maximum(solution.x, lower)
    return LinearFit(
        _theta(x), before, float(solution.value), solution.iterations, solution.converged
    )


def _theta(x: FloatArray) -> FloatArray:
    """Return the factor, once for every class, and the offsets."""
    return np.stack([np.full(len(x) - 1, x[0]), x[1:]])


def _tied(at: Point) -> Point:
    """Return the derivatives by one factor and the offsets from those by all factors."""
    k = len(at.gradient) // 2
    gradient = np.append(at.gradient[:k].sum(), at.gradient[k:])
    if not at.hessian.size:
        return Point(at.value, gradient, np.zeros((0, 0)))
    once = at.hessian[:k].sum(axis=0)
    hessian = np.zeros((k + 1, k + 1))
    hessian[0, 0], hessian[0, 1:], hessian[1:, 0] = once[:k].sum(), once[k:], once[k:]
    hessian[1:, 1:] = at.hessian[k:, k:]
    return Point(at.value, gradient, hessian)
