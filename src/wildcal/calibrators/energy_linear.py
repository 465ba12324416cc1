"""A temperature that is a smooth function of the free energy: energy scaling without densities."""

from dataclasses import dataclass, field
from typing import Any, Final

import array_api_compat.numpy as np_compat
import numpy as np

from wildcal.calibrators.energy import (
    OodWeight,
    check_ood_weight,
    fit_densities,
    free_energy,
    with_ood_weight,
)
from wildcal.calibrators.entropy_temperature import inverse_softplus
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, Bounds, bounds_of, fit_temperature
from wildcal.core.arrays import Array, FloatArray, clip, in_blocks, softplus
from wildcal.core.calibrator import FitInfo, TemperatureCalibrator
from wildcal.core.optimize import TemperatureObjective, newton, softplus_link
from wildcal.core.validation import Samples

# Range of the coefficients of the standardized energy; it ends a search that runs to infinity.
_MAX_COEFFICIENT: Final = 100.0
_MAX_STEP: Final = 3.0
# Along a flat valley 50 steps are sometimes too few.
_MAX_ITER: Final = 200


@dataclass(kw_only=True, eq=False, repr=False)
class EnergyLinear(TemperatureCalibrator):
    """p = softmax(z / T(z)), T = softplus(a + b F), F = -logsumexp(z).

    The simplest map from the free energy to a temperature; the difference to `EnergyScaling` is
    what the two densities add. a and b minimize the squared error of the probabilities. OOD
    samples (y == -1) have the uniform distribution as target.

    Parameters
    ----------
    bounds
        Range of T, for every input.
    ood_weight
        Weight of all OOD samples together, as in `EnergyScaling`.

    Attributes
    ----------
    intercept_, slope_
        a and b.

    Notes
    -----
    An ablation of energy-based instance-wise scaling (Kim and Kwon, ECCV 2024). Pass raw logits:
    log-softmax removes the free energy. If all energies are equal, b is 0 and the method is
    temperature scaling.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[6.0, 0.0]] * 60 + [[3.0, 0.0]] * 40)
    >>> y = np.array([0] * 59 + [1] + [0, 1] * 20)  # more mistakes where the energy is high
    >>> EnergyLinear().fit(logits, y).slope_ > 0
    True
    """

    name = "energy-linear"
    title = "temperature from the energy, without densities"
    reference = "ablation of EnergyScaling"
    uses_ood = True
    requires_raw_logits = True

    bounds: Bounds = DEFAULT_BOUNDS
    ood_weight: OodWeight = "paper"
    intercept_: float = field(init=False)
    slope_: float = field(init=False)

    def _check_options(self) -> None:
        bounds_of(self.bounds)
        check_ood_weight(self.ood_weight)

    def _fit(self, data: Samples) -> FitInfo:
        data = with_ood_weight(data, self.ood_weight)
        ts = fit_temperature(data.subset(~data.is_ood), bounds=self.bounds)
        notes = list(ts.warnings)
        energy = in_blocks(lambda z: free_energy(np_compat, z), data.logits)[:, 0]
        spread, _ = fit_densities(energy, np.ones(len(data), dtype=bool), data.weight)
        design = np.ones((len(data), 1))
        mean, std = 0.0, 1.0
        if spread is None:
            notes.append(
                "all samples have the same energy, as after log-softmax; the result is temperature"
                " scaling. Try the scores before the log-softmax."
            )
        else:
            mean, std = spread.mean, spread.std
            design = np.column_stack([design, (energy - mean) / std])
        objective = TemperatureObjective(
            data.logits, data.y, data.weight, design, softplus_link(*bounds_of(self.bounds))
        )
        starts = [_constant(ts.temperature, design.shape[1])]
        if ts.at_bound:  # there the temperature is clipped and has no gradient
            starts.append(_constant(1.0, design.shape[1]))
        limit = np.full(design.shape[1], _MAX_COEFFICIENT)
        solution = min(
            (
                newton(objective, start, -limit, limit, max_iter=_MAX_ITER, max_step=_MAX_STEP)
                for start in starts
            ),
            key=lambda found: found.value,
        )
        self.slope_ = float(solution.x[1] / std) if len(solution.x) == 2 else 0.0
        self.intercept_ = float(solution.x[0]) - self.slope_ * mean
        return FitInfo(
            "mse",
            objective.value(starts[0]),
            solution.value,
            ts.n_iter + solution.n_iter,
            ts.converged and solution.converged,
            warnings=tuple(notes),
        )

    def _reads_energy(self) -> bool:
        return bool(self.slope_)

    def _temperatures(self, xp: Any, z: Array, *inputs: Array) -> Array:
        low, high = bounds_of(self.bounds)
        return clip(xp, softplus(xp, self.intercept_ + self.slope_ * free_energy(xp, z)), low, high)


def _constant(temperature: float, n_coefficients: int) -> FloatArray:
    """Return coefficients with softplus(a) = T and b = 0."""
    return np.append(inverse_softplus(temperature), np.zeros(n_coefficients - 1))
