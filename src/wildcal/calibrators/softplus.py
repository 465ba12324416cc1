"""Temperatures of the form T = softplus(design @ phi), kept within bounds for every input."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wildcal.calibrators.temperature import TemperatureFit
from wildcal.core.arrays import FloatArray, Labels, Source
from wildcal.core.calibrator import FitSummary
from wildcal.core.columns import RowValues
from wildcal.core.objective import Link, Loss, TemperatureObjective, softplus_link
from wildcal.core.optimize import Solution, TuningLoss, minimize_in_box, minimize_temperature

# With columns of about unit size this is no limit in practice; it ends a run to infinity.
_LARGEST = 100.0
_INSIDE = 1.001
_LONGEST_STEP = 3.0
# Short steps along a flat valley to a far corner of the box: 50 of them did not always arrive.
_MOST_STEPS = 200


def softplus_temperature(eta: FloatArray, bounds: tuple[float, float]) -> FloatArray:
    """Return log(1 + exp(eta)), clipped to the bounds."""
    return np.clip(np.logaddexp(0.0, eta), *bounds)


def bounded_softplus(bounds: tuple[float, float]) -> Link:
    """H = clip(softplus(eta), bounds); where a bound holds, h does not move."""

    def link(eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        h, first, second = softplus_link(eta)
        moves = (h >= bounds[0]) & (h <= bounds[1])
        return np.clip(h, *bounds), first * moves, second * moves

    return link


def inverse_softplus(temperature: float) -> float:
    """Return the eta with softplus(eta) = T > 0."""
    return float(temperature + np.log(-np.expm1(-temperature)))


@dataclass(frozen=True, slots=True)
class SoftplusFit:
    """Coefficients of the design's columns, with the company they were found in."""

    phi: FloatArray
    loss_before: float
    solution: Solution

    def summary(self, loss: Loss, ts: TemperatureFit, notes: list[str]) -> FitSummary:
        """Return the record of a fit that began with temperature scaling."""
        return FitSummary(
            loss=loss,
            loss_before=self.loss_before,
            loss_after=self.solution.value,
            iterations=ts.solution.iterations + self.solution.iterations,
            converged=ts.solution.converged and self.solution.converged,
            notes=tuple(notes),
        )


def fit_softplus(
    logits: Source,
    y: Labels,
    weight: FloatArray | None,
    design: RowValues,
    n_coefficients: int,
    *,
    loss: Loss,
    temperature: float,
    bounds: tuple[float, float],
) -> SoftplusFit:
    """Return the phi that minimizes the mean loss of softmax(z / T), T = softplus(design @ phi).

    The first column of the design must be ones. The search starts at the one temperature given,
    that is at plain temperature scaling, and never ends above its loss.
    """
    objective = TemperatureObjective(logits, y, weight, design, bounded_softplus(bounds), loss=loss)
    return minimize_softplus(objective, n_coefficients, temperature=temperature, bounds=bounds)


def minimize_softplus(
    objective: TuningLoss,
    n_coefficients: int,
    *,
    temperature: float,
    bounds: tuple[float, float],
) -> SoftplusFit:
    """Return the phi that minimizes a loss of T = softplus(design @ phi), as `fit_softplus`."""
    start = np.zeros(n_coefficients)
    start[0] = inverse_softplus(temperature)
    lower, upper = np.full_like(start, -_LARGEST), np.full_like(start, _LARGEST)
    before = objective(start)
    limits: dict[str, Any] = {"max_iter": _MOST_STEPS, "longest_step": _LONGEST_STEP}
    solution = minimize_temperature(objective, start, lower, upper, **limits)
    if solution.value > before.value:  # the start on a subset of the rows led astray
        solution = minimize_in_box(objective, start, lower, upper, **limits)
    if not bounds[0] * _INSIDE < temperature < bounds[1] / _INSIDE:
        # At its bound the temperature is cut off, and hides the slope; try again from T = 1.
        middle = np.zeros_like(start)
        middle[0] = inverse_softplus(1.0)
        other = minimize_temperature(objective, middle, lower, upper, **limits)
        solution = min(solution, other, key=lambda found: found.value)
    return SoftplusFit(solution.x, before.value, solution)
