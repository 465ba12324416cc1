"""Temperature scaling mixed with a small part of the uniform distribution (Berta et al., 2025)."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wildcal.calibrators.temperature import DEFAULT_BOUNDS, Bounds, fit_temperature
from wildcal.core.arrays import Array, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.optimize import temperature_losses
from wildcal.core.validation import Samples


def uniform_part(data: Samples) -> float:
    """Return 1 / (N + 1), where N is the sum of the weights."""
    return 1 / (1 + float(data.weight.sum()))


def mixed_softmax(xp: Any, z: Array, temperature: float, uniform: float) -> Array:
    """Return (1 - uniform) softmax(z / T) + uniform / K."""
    return (1 - uniform) * softmax(xp, z, temperature) + uniform / z.shape[-1]


@dataclass(kw_only=True, eq=False, repr=False)
class TemperatureMix(Calibrator):
    """p = (1 - e) softmax(z / T) + e / K, with e = 1 / (N + 1) and N calibration samples.

    The uniform part is that of one more sample whose label is drawn at random. No class gets a
    probability below 1 / (K (N + 1)), so the cross-entropy of a confident mistake is bounded.

    Parameters
    ----------
    bounds
        Range of T.

    Attributes
    ----------
    temperature_, uniform_
        T and e.

    References
    ----------
    "ts-mix" of the package probmetrics; Berta et al., Rethinking early stopping: refine, then
    calibrate, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 99)
    >>> y = np.repeat([0, 0, 1], 33)  # two thirds are classified correctly
    >>> TemperatureMix().fit(logits, y).predict_proba(logits[:1]).round(4)
    array([[0.665, 0.335]])
    """

    name = "ts-mix"
    title = "temperature scaling with a uniform part"
    reference = "Berta et al., 2025"
    preserves_accuracy = True

    bounds: Bounds = DEFAULT_BOUNDS
    temperature_: float = field(init=False)
    uniform_: float = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        ts = fit_temperature(data, bounds=self.bounds)
        self.temperature_, self.uniform_ = ts.temperature, uniform_part(data)
        p_y = np.exp(-temperature_losses(data.logits, data.y, np.array(ts.temperature), "nll"))
        mixed = (1 - self.uniform_) * p_y + self.uniform_ / data.n_classes
        after = float(np.average(-np.log(mixed), weights=data.weight))
        return replace(ts.info, loss_after=after)

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return (1 - e) softmax(z / T) + e / K."""
        return mixed_softmax(xp, z, self.temperature_, self.uniform_)
