"""Entropy-based temperature scaling: a temperature per sample (Balanya et al., 2022)."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import array_api_compat.numpy as np_compat
import numpy as np

from wildcal.calibrators.temperature import DEFAULT_BOUNDS, bounds_of, fit_temperature
from wildcal.core.arrays import Array, clip, entropy, in_blocks, softplus
from wildcal.core.calibrator import FitInfo, TemperatureCalibrator
from wildcal.core.optimize import TemperatureObjective, newton, softplus_link
from wildcal.core.validation import Samples

# The logarithm of the entropy of a saturated softmax is not finite.
_MIN_ENTROPY: Final = 1e-12
_MAX_COEFFICIENT: Final = 100.0
_MAX_STEP: Final = 3.0


def log_relative_entropy(xp: Any, z: Array) -> Array:
    """Return log(H / log K), H the entropy of softmax(z), shape (n_samples, 1)."""
    return xp.log(clip(xp, entropy(xp, z), _MIN_ENTROPY, None) / math.log(z.shape[-1]))


def inverse_softplus(temperature: float) -> float:
    """Return the t with log(1 + exp(t)) = temperature."""
    return temperature + math.log(-math.expm1(-temperature))


@dataclass(kw_only=True, eq=False, repr=False)
class EntropyTemperatureScaling(TemperatureCalibrator):
    """p = softmax(z / T(z)), T(z) = softplus(w log(H / log K) + b).

    H is the entropy of softmax(z); H / log K lies in [0, 1]. w and b, each in [-100, 100], minimize
    the cross-entropy, starting from temperature scaling (w = 0).

    Parameters
    ----------
    bounds
        Range of T(z) for every input.

    Attributes
    ----------
    weight_, bias_
        w and b.

    Notes
    -----
    The published code uses stochastic gradient descent, this one Newton's method.

    References
    ----------
    Balanya, Maroñas and Ramos, Adaptive temperature scaling for robust calibration of deep neural
    networks, 2022 ("HTS").

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> info = EntropyTemperatureScaling().fit(*suite.test).fit_info_
    >>> info.loss_after < info.loss_before
    True
    """

    name = "hts"
    title = "entropy-based temperature scaling"
    reference = "Balanya et al., 2022"

    bounds: tuple[float, float] = DEFAULT_BOUNDS
    weight_: float = field(init=False)
    bias_: float = field(init=False)

    def _check_options(self) -> None:
        bounds_of(self.bounds)

    def _fit(self, data: Samples) -> FitInfo:
        low, high = self.bounds
        ts = fit_temperature(data, bounds=self.bounds)
        x = in_blocks(lambda z: log_relative_entropy(np_compat, z), data.logits)
        design = np.hstack([np.ones_like(x), x])
        objective = TemperatureObjective(
            data.logits, data.y, data.weight, design, softplus_link(low, high), loss="nll"
        )
        upper = np.full(2, _MAX_COEFFICIENT)
        start = np.array([inverse_softplus(ts.temperature), 0.0])
        before = objective.value(start)
        found = [objective.minimize(start, -upper, upper, max_step=_MAX_STEP)]
        if found[0].value > before or not found[0].converged:  # the first samples led astray
            found.append(newton(objective, start, -upper, upper, max_iter=200, max_step=_MAX_STEP))
        if ts.at_bound:  # there T(z) is cut off and its slope is 0
            middle = np.array([inverse_softplus(1.0), 0.0])
            found.append(objective.minimize(middle, -upper, upper, max_step=_MAX_STEP))
        best = min(found, key=lambda solution: solution.value)
        self.bias_, self.weight_ = map(float, best.x)
        return FitInfo(
            "nll",
            before,
            best.value,
            ts.n_iter + best.n_iter,
            ts.converged and best.converged,
            warnings=ts.warnings,
        )

    def _temperatures(self, xp: Any, z: Array, *inputs: Array) -> Array:
        t = softplus(xp, self.weight_ * log_relative_entropy(xp, z) + self.bias_)
        return clip(xp, t, *self.bounds)
