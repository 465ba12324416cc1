"""Mean confidence and its difference from the clean one: AC and DoC."""

from dataclasses import dataclass
from typing import final

import numpy as np

from wildcal._old.accuracy.means import MeanEstimator, Scaled
from wildcal._old.accuracy.rows import Rows, confidence
from wildcal._old.core.arrays import FloatArray


@dataclass(kw_only=True, eq=False)
class _Confidence(Scaled, MeanEstimator):
    assumes_clean_class_mix = False

    def _row_values(self, logits: FloatArray, second: FloatArray | None) -> FloatArray:
        return confidence(logits, self._unit(self.temperature_))


@final
@dataclass(kw_only=True, eq=False)
class AverageConfidence(_Confidence):
    """AC: the mean of max_k softmax(z / T)_k over the window, T from the clean rows.

    It trusts the confidence, so it hardly sees a shift under which the network stays confident.

    Examples
    --------
    >>> logits, y = np.array([[3.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    >>> round(AverageConfidence().fit(logits, y).estimate(logits).value, 6)
    0.75
    """

    name = "ac"
    title = "average confidence"
    reference = "Hendrycks and Gimpel, ICLR 2017"
    smallest_window = 1
    usual_error = 1.1


@final
@dataclass(kw_only=True, eq=False)
class DifferenceOfConfidence(_Confidence):
    """DoC: clean accuracy minus the fall of mean confidence, acc + AC(window) - AC(clean).

    After temperature scaling it differs from AC by the little that clean confidence and accuracy
    are apart.

    Examples
    --------
    >>> logits, y = np.array([[3.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    >>> round(DifferenceOfConfidence().fit(logits, y).estimate(logits).value, 6)
    0.75
    """

    name = "doc"
    title = "difference of confidence"
    reference = "Guillory et al., ICCV 2021"
    smallest_window = 1
    usual_error = 1.1

    def _learn(self, rows: Rows) -> None:
        clean = rows.of(0)
        mean = float(confidence(clean.logits, self._unit(self.temperature_)).mean())
        self.line_ = np.array([clean.accuracy() - mean, 1.0])
