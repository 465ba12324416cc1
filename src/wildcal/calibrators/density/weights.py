"""Layer weights: the S = w0 + Σ w_l s_l that calibrates best, never below a floor."""

from typing import Final, NamedTuple

import numpy as np

from wildcal.calibrators.temperature import DEFAULT_BOUNDS, fit_temperature
from wildcal.core.arrays import FloatArray, Labels, Logits
from wildcal.core.objective import Link, Loss, TemperatureObjective
from wildcal.core.optimize import Solution, minimize_temperature

LARGEST_WEIGHT: Final = 1e4
LARGEST_OFFSET: Final = 100.0
LARGEST_SCALE: Final = 1e6
"""Far above any sane temperature; it keeps logits / S apart from 0 * inf."""
# As good as none: a row so sharp has probabilities of 0 and 1, and a loss that is flat.
_NO_FLOOR: Final = 1e-6


class LayerWeights(NamedTuple):
    """The fitted numbers, and how they were found."""

    weights: FloatArray
    offset: float
    solution: Solution


def scale_of(distances: FloatArray, weights: FloatArray, offset: float, floor: float) -> FloatArray:
    """Return S of each row, between the floor and 1e6 for any distances."""
    with np.errstate(over="ignore"):  # a distance of 1e300 is simply far away
        total = np.full(len(distances), offset)
        # Layer by layer: the last bit of a matrix product may depend on the number of rows.
        for column, weight in zip(distances.T, weights, strict=True):
            total += weight * column
        return np.asarray(np.clip(total, floor, LARGEST_SCALE))


def fit_weights(
    logits: Logits,
    y: Labels,
    weight: FloatArray | None,
    distances: FloatArray,
    *,
    loss: Loss,
    floor: float,
) -> LayerWeights:
    """Return the weights in [0, 1e4] and the offset in [-100, 100] of the smallest loss.

    The loss is not convex, so the search starts from two places: temperature scaling, and all
    weights 1 as published. Where rows reach the floor the loss has kinks, at which a step by
    derivatives can get stuck; so it is minimized without the floor first, and with it from there.
    """
    # In units of each layer's mean distance: layers differ by orders of magnitude.
    unit = distances.mean(axis=0)
    unit[unit == 0] = 1.0
    design = np.column_stack([distances / unit, np.ones(len(distances))])
    upper = np.append(LARGEST_WEIGHT * unit, LARGEST_OFFSET)
    lower = np.append(np.zeros(len(unit)), -LARGEST_OFFSET)
    single = fit_temperature(logits, y, weight=weight, loss=loss, bounds=DEFAULT_BOUNDS)
    starts = [
        np.append(np.zeros(len(unit)), single.temperature),
        np.append(unit, 1.0),
    ]

    def objective(at_least: float) -> TemperatureObjective:
        return TemperatureObjective(logits, y, weight, design, _link(at_least), loss=loss)

    free = objective(_NO_FLOOR)
    ends = [minimize_temperature(free, start, lower, upper) for start in starts]
    best = min(ends, key=lambda end: end.value)  # the first, temperature scaling, on ties
    if floor > _NO_FLOOR:
        best = _with_floor(objective(floor), best, starts[0], lower, upper)
    return LayerWeights(best.x[:-1] / unit, float(best.x[-1]), best)


def _with_floor(
    objective: TemperatureObjective,
    free: Solution,
    single: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> Solution:
    """Return the best place that is reached with the floor, never above one temperature."""
    ends = [minimize_temperature(objective, start, lower, upper) for start in (single, free.x)]
    best = min(ends, key=lambda end: end.value)
    # Stuck at a kink is as good as it gets, if the smooth problem was solved.
    return Solution(
        best.x,
        best.value,
        best.gradient,
        free.iterations + best.iterations,
        best.converged or free.converged,
        best.reason,
    )


def _link(floor: float) -> Link:
    def link(eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        moves = (eta >= floor) & (eta <= LARGEST_SCALE)
        return np.clip(eta, floor, LARGEST_SCALE), moves.astype(np.float64), np.zeros_like(eta)

    return link
