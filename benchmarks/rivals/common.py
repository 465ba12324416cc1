"""What the rivals with one temperature for a window share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from wildcal.core.validation import Samples
from wildcal.window.base import WindowCalibrator


@dataclass(kw_only=True, eq=False, repr=False)
class WindowTemperature(WindowCalibrator):
    """p = softmax(u / T); the method writes `_log_temperature`, of samples u of the window."""

    def _log_temperature(self, u: np.ndarray) -> float:
        raise NotImplementedError

    def adjustment(self, window: Any) -> float:
        """Return 0: there is no change without samples."""
        return 0.0

    def _adjustment_to(self, X: Any, knn_distances: Any) -> float:
        return self._log_temperature(
            np.log(np.maximum(self._unadjusted_proba(X, knn_distances), 1e-30))
        )

    def adapted_formula(self, xp: Any, z: Any, adjustment: Any, *inputs: Any) -> Any:
        """Return softmax(u / T)."""
        u = self._log_proba(xp, z, *inputs) / float(np.exp(adjustment))
        e = xp.exp(u - xp.max(u, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)


def source_of(data: Samples) -> Samples:
    """Return the source samples."""
    return data.subset(data.is_source)


def confidence(u: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Return the largest softmax probability."""
    return softmax(u / temperature, axis=1).max(axis=1)
