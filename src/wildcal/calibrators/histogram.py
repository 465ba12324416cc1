"""Histogram binning of the top-label confidence (Zadrozny and Elkan, 2001)."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from wildcal.core.arrays import Array, BoolArray, FloatArray
from wildcal.core.calibrator import TopLabelCalibrator
from wildcal.core.piecewise import count_below, pad, step_function
from wildcal.core.validation import check_number

_EMPTY: Final = -1.0
# Forests predict round numbers such as 0.6, which lie on edges. Their logarithms and float32 move
# them by less than this, and must not move them to another bin.
_EDGE_SHIFT: Final = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class HistogramBinning(TopLabelCalibrator):
    """q = accuracy of the calibration samples whose confidence falls in the same bin.

    Bins are of equal width, (k / n_bins, (k + 1) / n_bins]. An empty bin keeps the confidence.

    Parameters
    ----------
    n_bins
        Number of bins of [0, 1].

    Attributes
    ----------
    knots_
        Edges of the bins, as 1 - confidence in increasing order, padded with inf.
    values_
        Accuracy of each bin, -1 if it is empty; the bin of the highest confidence is the first.

    References
    ----------
    Zadrozny and Elkan, Obtaining calibrated probability estimates from decision trees and naive
    Bayesian classifiers, ICML 2001; of the top label: Guo et al., ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.1, 0.0], [3.2, 0.0], [3.3, 0.0]] * 20)
    >>> y = np.array([0, 0, 0, 1] * 20)  # 75 % are classified correctly
    >>> HistogramBinning().fit(logits, y).confidence(logits[:2])
    array([0.75, 0.75])
    """

    name = "histogram"
    title = "histogram binning of the confidence"
    reference = "Zadrozny and Elkan, ICML 2001"

    n_bins: int = 15
    knots_: FloatArray = field(init=False)
    values_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_number("n_bins", self.n_bins, 1, 10_000, whole=True)

    def _fit_top_label(self, rest: FloatArray, correct: BoolArray, weight: FloatArray) -> None:
        edges = np.arange(self.n_bins - 1, 0, -1) / self.n_bins * (1 + _EDGE_SHIFT)
        index = count_below(np, rest, 1 - edges)
        total = np.bincount(index, weight, self.n_bins)
        right = np.bincount(index, weight * correct, self.n_bins)
        values = np.where(total > 0, right / np.where(total > 0, total, 1.0), _EMPTY)
        self.knots_, self.values_ = pad(1 - edges, values, size=self.n_bins)

    def _top_probability(self, xp: Any, rest: Array) -> Array:
        accuracy = step_function(xp, rest, self.knots_, self.values_)
        return xp.where(accuracy < 0, 1 - rest, accuracy)
