"""GDE: two networks agree as often as they are right (Jiang et al., 2022)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.core.arrays import Array, FloatArray
from wildcal.core.validation import Samples


@dataclass(kw_only=True, eq=False, repr=False)
class GDE(AccuracyEstimator):
    """Generalization disagreement equality: the share of samples where two networks agree.

    It holds for two training runs of one architecture. `fit` sees the first network only, so the
    error is not measured: intervals take the networks for independent.

    Examples
    --------
    >>> first, second = np.array([[2.0, 0]] * 4), np.array([[3.0, 0], [0, 3.0]] * 2)
    >>> estimator = GDE().fit(first, np.array([0, 0, 0, 1]))
    >>> estimator.estimate(first, second_logits=second).value
    0.5
    """

    name = "gde"
    title = "generalization disagreement equality"
    reference = "Jiang et al., ICLR 2022"
    requires_second_logits = True
    default_relative_error = 0.8

    def _values(self, p: FloatArray, second_logits: FloatArray | None = None) -> Array:
        assert second_logits is not None
        return (p.argmax(axis=1) == second_logits.argmax(axis=1)).astype(np.float64)

    def _fit_errors(self, p: FloatArray, correct: Any, samples: Samples) -> None:
        variance = self.source_accuracy_ * (1 - self.source_accuracy_)
        self.source_value_, self.value_variance_ = self.source_accuracy_, variance
        self.error_variance_ = 2 * variance
        self.relative_error_ = self.default_relative_error
        self.domain_errors_ = np.zeros(0)
