"""Projected Newton on a box: few passes over the data, exact second derivatives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np

from wildcal._old.core.arrays import BoolArray, FloatArray, Source
from wildcal._old.core.objective import Point

MAX_ITER = 50
GRADIENT_TOLERANCE = 1e-9
# A step that promises less than this part of the loss cannot be seen in it: the rounding of
# float64 sums, and of float32 terms. (The gradient is finer: near a minimum it is what we trust.)
RESOLUTION_FLOAT64 = 1e-13
RESOLUTION_FLOAT32 = 1e-7
_ZERO_LOSS = 1e-12
_SUFFICIENT_DECREASE = 1e-4
# Of so few coordinates, every choice of those at a bound is tried: 27 for three.
_FEW = 3
# Rows a warm start is made on. Newton then needs one or two full passes instead of five.
WARM_START_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Solution:
    """Where the solver stopped, and why."""

    x: FloatArray
    value: float
    gradient: FloatArray
    iterations: int
    converged: bool
    reason: str


def minimize_in_box(
    objective: Callable[[FloatArray], Point],
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    max_iter: int = MAX_ITER,
    longest_step: float = np.inf,
    resolution: float = RESOLUTION_FLOAT64,
) -> Solution:
    """Return a local minimum of a smooth function on the box lower <= x <= upper.

    Each step minimizes the quadratic model on the box; a Hessian that is not positive definite has
    its eigenvalues e replaced by max(|e|, 1e-8 |trace|); Armijo backtracking. It stops when the
    projected gradient is at most 1e-9 of the loss, or when the step promises less than
    `resolution` of the loss; that last step is still taken, because the gradient that asks for it
    is finer than the loss that would have to confirm it.
    """
    x = np.clip(start, lower, upper)
    here = objective(x)
    for iteration in range(max_iter):
        gradient = here.gradient
        scale = max(abs(here.value), _ZERO_LOSS)
        noise = resolution * scale
        if abs(here.value) <= _ZERO_LOSS:
            return Solution(x, here.value, gradient, iteration, True, "the loss vanished")
        pinned = ((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0))
        steepest = np.abs(gradient[~pinned]).max(initial=0.0)
        if not steepest > 0:
            return Solution(x, here.value, gradient, iteration, True, "the gradient vanished")
        if not (np.isfinite(here.value) and np.isfinite(here.hessian).all()):
            return Solution(x, here.value, gradient, iteration, False, "the loss is not finite")
        step, convex = _newton_step(here.hessian, gradient, ~pinned, lower - x, upper - x)
        longest = np.abs(step).max()
        if longest > longest_step:
            step *= longest_step / longest
        promised = -float(gradient @ step)
        small = steepest <= GRADIENT_TOLERANCE * scale
        if small or promised <= noise:
            reason = "the gradient vanished" if small else "the loss cannot fall measurably"
            end = _place(x, step, lower, upper) if convex and promised <= noise else x
            return Solution(end, here.value, gradient, iteration, True, reason)
        fraction = 1.0
        trial = _place(x, step, lower, upper)
        there = objective(trial)
        # The comparison forgives the rounding of both values.
        while (
            not there.value <= here.value - _SUFFICIENT_DECREASE * fraction * promised + 4 * noise
        ):
            fraction /= 2
            if fraction * promised <= noise:
                # A promise near the noise may well be empty; a large one that fails is a defect.
                close = promised <= 1e3 * noise
                return Solution(x, here.value, gradient, iteration, close, "no step helps")
            trial = _place(x, fraction * step, lower, upper)
            there = objective(trial)
        x, here = trial, there
    return Solution(
        x, here.value, here.gradient, max_iter, False, f"stopped after {max_iter} iterations"
    )


class TuningLoss(Protocol):
    """A loss of rows of logits, such as `TemperatureObjective`, that knows a subset of itself."""

    @property
    def logits(self) -> Source:
        """The rows, whose precision is that of the loss."""

    def __call__(self, phi: FloatArray) -> Point:
        """Return loss, gradient and Hessian at phi."""

    def warm_up(self, n_rows: int) -> Sequence["TuningLoss"]:
        """Return the loss of about n_rows rows, or nothing if there are not many more."""


def minimize_temperature(
    objective: TuningLoss,
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    max_iter: int = MAX_ITER,
    longest_step: float = np.inf,
) -> Solution:
    """Return `minimize_in_box` of a tuning loss, started from the minimum on a subset of rows."""
    stages = [*objective.warm_up(WARM_START_ROWS), objective]
    exact = objective.logits.dtype == np.float64
    for stage in stages:
        solution = minimize_in_box(
            stage,
            start,
            lower,
            upper,
            max_iter=max_iter,
            longest_step=longest_step,
            resolution=RESOLUTION_FLOAT64 if exact else RESOLUTION_FLOAT32,
        )
        start = solution.x
    return solution


def _newton_step(
    hessian: FloatArray, gradient: FloatArray, free: BoolArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, bool]:
    """Return the step low <= s <= high to the minimum of the model, and whether it was convex.

    Without the pinned coordinates this is a linear system. Where its solution leaves the box,
    cutting it off is not enough (the rest of the step need not go downhill), so the model is then
    minimized on the box, by bounded least squares on the square root of the Hessian.
    """
    step = np.zeros_like(gradient)
    root, convex = _square_root(hessian[np.ix_(free, free)])
    step[free] = -np.linalg.solve(root.T @ root, gradient[free])
    if (step >= low).all() and (step <= high).all():
        return step, convex
    movable = high > low
    root, convex = _square_root(hessian[np.ix_(movable, movable)])
    target = np.asarray(-np.linalg.solve(root.T, gradient[movable]), np.float64)
    step[:] = 0
    step[movable] = _least_squares(root, target, low[movable], high[movable])
    return step, convex


def _least_squares(
    root: FloatArray, target: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return the low <= s <= high with the least |root s - target|²."""
    if len(target) > _FEW:
        from scipy.optimize import lsq_linear  # slow to import: half a second

        most = 50 * len(target)
        found = lsq_linear(root, target, (low, high), method="bvls", tol=1e-14, max_iter=most)
        return np.asarray(found.x)
    # Each coordinate is free or at one of its bounds: all combinations are tried.
    best, least = np.zeros_like(target), np.inf
    for sides in product((0, -1, 1), repeat=len(target)):
        free = np.array(sides) == 0
        trial = np.select([free, np.array(sides) < 0], [0.0, low], high)
        if not np.isfinite(trial).all():
            continue
        rest = root[:, free]
        trial[free] = np.linalg.solve(rest.T @ rest, rest.T @ (target - root @ trial))
        left = root @ trial - target
        if (trial >= low).all() and (trial <= high).all() and left @ left < least:
            best, least = trial, float(left @ left)
    return best


def _place(x: FloatArray, step: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return x + step, exactly at a bound that it reaches up to rounding, so that it is pinned."""
    there = x + step
    slack = 8 * np.finfo(float).eps * (np.abs(x) + np.abs(step))
    there = np.where(there <= lower + slack, lower, there)
    return np.where(there >= upper - slack, upper, there)


def _square_root(hessian: FloatArray) -> tuple[FloatArray, bool]:
    """Return R with R'R = H, H bent to be positive definite, and whether it was so already."""
    values, vectors = np.linalg.eigh(hessian)
    floor = 1e-8 * max(abs(float(np.trace(hessian))), np.finfo(float).tiny)
    bent = np.maximum(np.abs(values), floor)
    return np.sqrt(bent)[:, None] * vectors.T, bool((values >= floor).all())
