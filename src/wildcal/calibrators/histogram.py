"""Histogram binning of the top-label confidence (Zadrozny and Elkan, 2001)."""

from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators.top_label import TopLabelMap
from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.calibrator import FitSummary
from wildcal.core.checks import MOST_BINS, check_count
from wildcal.core.stored import ARRAY, INTEGER, stored


@final
@dataclass(kw_only=True, eq=False)
class HistogramBinning(TopLabelMap):
    """q = the accuracy of the tuning rows whose confidence falls in the same bin.

    Parameters
    ----------
    n_bins
        Number of equal-width bins (lo, hi] of [0, 1].

    Notes
    -----
    An empty bin leaves the confidence as it is. (Published code returns 0 there, which nothing
    supports.) Zadrozny and Elkan, Obtaining calibrated probability estimates from decision trees
    and naive Bayesian classifiers, ICML 2001; on the top label, Guo et al., ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.1, 0.0], [3.2, 0.0], [3.3, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right
    >>> HistogramBinning().fit(logits, y).confidence(logits)
    array([0.75, 0.75, 0.75, 0.75])
    """

    name = "histogram"
    title = "histogram binning of the confidence"
    reference = "Zadrozny and Elkan, ICML 2001"
    stores = "a number for each bin"

    n_bins: int = field(default=15, metadata=stored(INTEGER))
    values_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    weights_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Tuning rows in each bin, or their weights; 0 marks an empty bin."""

    def _check_options(self) -> None:
        check_count("n_bins", self.n_bins, most=MOST_BINS)

    def _check_fitted(self) -> None:
        if not self.values_.shape == self.weights_.shape == (self.n_bins,):
            raise ValueError(f"values_ and weights_ must have {self.n_bins} entries each.")
        if self.weights_.min() < 0 or self.values_.min() < 0 or self.values_.max() > 1:
            raise ValueError("values_ must lie in [0, 1] and weights_ must not be negative.")

    def _fit_map(
        self, confidence: FloatArray, correct: BoolArray, weight: FloatArray | None
    ) -> FitSummary:
        index = self._bin(confidence)
        weight = np.ones(len(index)) if weight is None else weight
        self.weights_ = np.bincount(index, weight, self.n_bins).astype(np.float64)
        right = np.bincount(index, weight * correct, self.n_bins)
        self.values_ = right / np.where(self.weights_ > 0, self.weights_, 1.0)
        return FitSummary()

    def _map(self, confidence: FloatArray) -> FloatArray:
        index = self._bin(confidence)
        return np.where(self.weights_[index] > 0, self.values_[index], confidence)

    @property
    def edges(self) -> FloatArray:
        """Where bins end, a millionth above k / n_bins.

        The confidences of a forest are round numbers such as 0.6, which lie on edges. Their
        logarithms and float32 move them by less than that, and must not move them to another bin.
        """
        return np.linspace(0.0, 1.0, self.n_bins + 1) * (1 + 1e-6)

    def _bin(self, confidence: FloatArray) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.edges, confidence) - 1, 0, self.n_bins - 1)
