"""Entropy-based temperature scaling: a temperature per sample (Balanya et al., 2022)."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from wildcal.calibrators.temperature import (
    DEFAULT_BOUNDS,
    Bounds,
    TemperatureFit,
    bounds_of,
    fit_temperature,
)
from wildcal.core.arrays import Array, FloatArray, clip, entropy, in_blocks, softplus
from wildcal.core.calibrator import FitInfo, TemperatureCalibrator
from wildcal.core.optimize import Loss, TemperatureObjective, softplus_link
from wildcal.core.validation import Samples

# The logarithm of the entropy of a saturated softmax is not finite.
_MIN_ENTROPY: Final = 1e-12
# Ends a search that runs to infinity.
_MAX_COEFFICIENT: Final = 100.0
_MAX_STEP: Final = 3.0
# Along a flat valley the default of 50 Newton steps is sometimes too few.
_MAX_ITER: Final = 200


def log_relative_entropy(xp: Any, z: Array) -> Array:
    """Return log(H / log K), H the entropy of softmax(z), shape (n_samples, 1)."""
    return xp.log(clip(xp, entropy(xp, z), _MIN_ENTROPY, None) / math.log(z.shape[-1]))


def inverse_softplus(temperature: float) -> float:
    """Return the t with log(1 + exp(t)) = temperature."""
    return temperature + math.log(-math.expm1(-temperature))


def fit_softplus_line(
    data: Samples, feature: FloatArray, ts: TemperatureFit, loss: Loss
) -> tuple[float, float, FitInfo]:
    """Return the a and b of T = softplus(a + b feature), and the record of the fit.

    a and b, each in [-100, 100], minimize the loss. The search starts from temperature scaling.
    """
    design, link = np.column_stack([np.ones(len(data)), feature]), softplus_link(*ts.bounds)
    objective = TemperatureObjective(data.logits, data.y, data.weight, design, link, loss=loss)
    upper = np.full(2, _MAX_COEFFICIENT)
    options = {"max_step": _MAX_STEP, "max_iter": _MAX_ITER}
    # At its bound T is cut off and has no slope, so the search also starts from T = 1.
    temperatures = (ts.temperature, 1.0) if ts.at_bound else (ts.temperature,)
    starts = [np.array([inverse_softplus(t), 0.0]) for t in temperatures]
    found = [objective.minimize(start, -upper, upper, **options) for start in starts]
    best = min(found, key=lambda solution: solution.value)
    return float(best.x[0]), float(best.x[1]), ts.next_info(loss, objective(starts[0])[0], best)


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

    bounds: Bounds = DEFAULT_BOUNDS
    weight_: float = field(init=False)
    bias_: float = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        ts = fit_temperature(data, bounds=self.bounds)
        x = in_blocks(lambda z: log_relative_entropy(np, z), data.logits)
        self.bias_, self.weight_, info = fit_softplus_line(data, x[:, 0], ts, "nll")
        return info

    def _temperatures(self, xp: Any, z: Array, *inputs: Array) -> Array:
        t = softplus(xp, self.weight_ * log_relative_entropy(xp, z) + self.bias_)
        return clip(xp, t, *bounds_of(self.bounds))
