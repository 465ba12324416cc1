"""Projected Newton on a box: few passes over the data, exact second derivatives."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wildcal.core.arrays import FloatArray
from wildcal.core.objective import Point, TemperatureObjective

GRADIENT_TOLERANCE = 1e-9
# A step that promises less than this part of the loss cannot be seen in it: the rounding of
# float64 sums, and of float32 terms. (The gradient is finer: near a minimum it is what we trust.)
RESOLUTION_FLOAT64 = 1e-13
RESOLUTION_FLOAT32 = 1e-7
_ZERO_LOSS = 1e-12
_SUFFICIENT_DECREASE = 1e-4
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
    max_iter: int = 50,
    longest_step: float = np.inf,
    resolution: float = RESOLUTION_FLOAT64,
) -> Solution:
    """Return a local minimum of a smooth function on the box lower <= x <= upper.

    Newton on the coordinates that are not pinned at a bound; a Hessian block that is not positive
    definite has its eigenvalues e replaced by max(|e|, 1e-8 |trace|); Armijo backtracking along
    the projected step. It stops when the projected gradient is at most 1e-9 of the loss, or when
    the step promises less than `resolution` of the loss; that last step is still taken, because
    the gradient that asks for it is finer than the loss that would have to confirm it.
    """
    x = np.clip(start, lower, upper)
    here = objective(x)
    for iteration in range(max_iter):
        gradient = here.gradient
        pinned = ((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0))
        free = ~pinned
        scale = max(abs(here.value), _ZERO_LOSS)
        if abs(here.value) <= _ZERO_LOSS:
            return Solution(x, here.value, gradient, iteration, True, "the loss vanished")
        if not free.any() or not np.abs(gradient[free]).max() > 0:
            return Solution(x, here.value, gradient, iteration, True, "the gradient vanished")
        step = np.zeros_like(x)
        step[free], convex = _newton_step(here.hessian[np.ix_(free, free)], gradient[free])
        longest = np.abs(step).max()
        if longest > longest_step:
            step *= longest_step / longest
        trial = np.clip(x + step, lower, upper)
        promised = -float(gradient @ (trial - x))
        noise = resolution * scale
        small = np.abs(gradient[free]).max() <= GRADIENT_TOLERANCE * scale
        if small or promised <= noise:
            reason = "the gradient vanished" if small else "the loss cannot fall measurably"
            end = trial if convex and promised <= noise else x
            return Solution(end, here.value, gradient, iteration, True, reason)
        fraction = 1.0
        there = objective(trial)
        # The comparison forgives the rounding of both values.
        while not there.value <= here.value - _SUFFICIENT_DECREASE * promised + 4 * noise:
            fraction /= 2
            trial = np.clip(x + fraction * step, lower, upper)
            promised = -float(gradient @ (trial - x))
            if promised <= noise:
                return Solution(x, here.value, gradient, iteration, True, "no step helps")
            there = objective(trial)
        x, here = trial, there
    return Solution(
        x, here.value, here.gradient, max_iter, False, f"stopped after {max_iter} iterations"
    )


def minimize_temperature(
    objective: TemperatureObjective,
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    longest_step: float = np.inf,
) -> Solution:
    """Return `minimize_in_box` of a tuning loss, started from the minimum on a subset of rows."""
    step = len(objective.logits) // WARM_START_ROWS
    stages = [objective.on_every(step), objective] if step > 1 else [objective]
    exact = objective.logits.dtype == np.float64
    for stage in stages:
        solution = minimize_in_box(
            stage,
            start,
            lower,
            upper,
            longest_step=longest_step,
            resolution=RESOLUTION_FLOAT64 if exact else RESOLUTION_FLOAT32,
        )
        start = solution.x
    return solution


def _newton_step(hessian: FloatArray, gradient: FloatArray) -> tuple[FloatArray, bool]:
    """Return the (modified) Newton step, and whether the Hessian was positive definite."""
    values, vectors = np.linalg.eigh(hessian)
    floor = 1e-8 * max(abs(float(np.trace(hessian))), np.finfo(float).tiny)
    bent = np.maximum(np.abs(values), floor)
    return -(vectors @ ((vectors.T @ gradient) / bent)), bool((values >= floor).all())
