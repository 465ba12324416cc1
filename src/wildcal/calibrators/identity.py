"""No calibration: the softmax of the logits."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wildcal.core.arrays import Array, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.optimize import temperature_losses
from wildcal.core.validation import Samples


@dataclass(kw_only=True, eq=False, repr=False)
class Identity(Calibrator):
    """p = softmax(z), the uncalibrated probabilities to compare with.

    Examples
    --------
    >>> Identity().fit([[0.0, 0.0], [3.0, 0.0]], [1, 0]).predict_proba([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    name = "identity"
    title = "no calibration"
    preserves_accuracy = True
    min_mistakes = 0

    def _fit(self, data: Samples) -> FitInfo:
        losses = temperature_losses(data.logits, data.y, 1.0, "nll")
        loss = float(np.average(losses, weights=data.weight))
        return FitInfo(loss_before=loss, loss_after=loss)

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(z)."""
        return softmax(xp, z)

    def _frequency_warnings(self, samples: Samples) -> list[str]:
        return []

    def _one_class_warnings(self, samples: Samples) -> list[str]:
        return []
