"""A temperature that is a smooth function of the free energy: energy scaling without densities."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wildcal.calibrators.energy import (
    OodWeight,
    check_ood_weight,
    fit_gaussian,
    free_energy,
    with_ood_weight,
)
from wildcal.calibrators.entropy_temperature import fit_softplus_line
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, Bounds, bounds_of, fit_temperature
from wildcal.core.arrays import Array, clip, in_blocks, softplus
from wildcal.core.calibrator import FitInfo, TemperatureCalibrator
from wildcal.core.validation import Samples


@dataclass(kw_only=True, eq=False, repr=False)
class EnergyLinear(TemperatureCalibrator):
    """p = softmax(z / T(z)), T = softplus(a + b F), F = -logsumexp(z).

    `EnergyScaling` without its two densities: the temperature depends on the free energy alone. a
    and b minimize the squared error of the probabilities. OOD samples (y == -1) have the uniform
    distribution as target.

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
    An ablation of energy-based instance-wise scaling (Kim and Kwon, ECCV 2024). X must be raw
    logits: log-softmax, which removes the free energy, is refused. If all energies
    are equal, b is 0 and the method is temperature scaling.

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
        check_ood_weight(self.ood_weight)

    def _fit(self, data: Samples) -> FitInfo:
        data = with_ood_weight(data, self.ood_weight)
        ts = fit_temperature(data.subset(~data.is_ood), bounds=self.bounds)
        energy = in_blocks(lambda z: free_energy(np, z), data.logits)[:, 0]
        spread = fit_gaussian(energy, data.weight)
        mean, std = spread or (0.0, 1.0)
        feature = (energy - mean) / std if spread else np.zeros(len(data))
        intercept, slope, info = fit_softplus_line(data, feature, ts, "mse")
        self.slope_ = slope / std
        self.intercept_ = intercept - self.slope_ * mean
        if spread is None:
            note = "all samples have the same energy, so the result is temperature scaling."
            info = replace(info, warnings=(*info.warnings, note))
        return info

    def _temperatures(self, xp: Any, z: Array, *inputs: Array) -> Array:
        t = softplus(xp, self.intercept_ + self.slope_ * free_energy(xp, z))
        return clip(xp, t, *bounds_of(self.bounds))
