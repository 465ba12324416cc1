"""Isotonic regression of the top-label confidence (Zadrozny and Elkan, 2002)."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal.calibrators.pava import check_thresholds, fit_isotonic
from wildcal.calibrators.soft_rows import check_prior
from wildcal.calibrators.top_label import TopLabelMap
from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.calibrator import FitSummary
from wildcal.core.stored import ARRAY, REAL, stored


@final
@dataclass(kw_only=True, eq=False)
class TopLabelIsotonic(TopLabelMap):
    """q = f(confidence) with the non-decreasing f closest to the observed accuracy.

    f minimizes the sum of (f(confidence) - correct)²; it is linear between its thresholds and
    constant outside them, and equal confidences are one point with their mean accuracy.

    Parameters
    ----------
    prior
        Strength of soft rows, as in `TemperatureScaling`.

    Notes
    -----
    The semantics are those of `sklearn.isotonic.IsotonicRegression` on float64. Zadrozny and
    Elkan, Transforming classifier scores into accurate multiclass probability estimates, KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right
    >>> TopLabelIsotonic().fit(logits, y).confidence(logits)
    array([0.75, 0.75, 0.75, 0.75])
    """

    name = "isotonic"
    title = "isotonic regression of the confidence"
    reference = "Zadrozny and Elkan, KDD 2002"
    stores = "a step for each rise of the curve"

    prior: float = field(default=0.0, metadata=stored(REAL))
    thresholds_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    values_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_options(self) -> None:
        check_prior(self.prior)

    def _check_fitted(self) -> None:
        check_thresholds(self.thresholds_, self.values_)

    def _fit_map(
        self, confidence: FloatArray, correct: BoolArray, weight: FloatArray | None
    ) -> FitSummary:
        self.thresholds_, self.values_ = fit_isotonic(confidence, correct, weight)
        return FitSummary()

    def _map(self, confidence: FloatArray) -> FloatArray:
        return np.interp(confidence, self.thresholds_, self.values_)
