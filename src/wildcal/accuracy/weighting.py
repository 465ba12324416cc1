"""IM: clean accuracy, weighted by how often confidences occur in the window."""

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from wildcal.accuracy.estimator import Reading, check_arrays
from wildcal.accuracy.means import MeanEstimator, Scaled, mean_reading
from wildcal.accuracy.rows import Rows, confidence
from wildcal.accuracy.state import WindowState
from wildcal.core.arrays import FloatArray, Labels
from wildcal.core.stored import ARRAY, stored

_BINS: Final = 10


def confidence_bin(top: FloatArray) -> Labels:
    """Return which of ten bins (0, 0.1], (0.1, 0.2], ... each confidence is in."""
    return np.asarray(np.clip(np.ceil(top * _BINS) - 1, 0, _BINS - 1), np.int64)


@final
@dataclass(kw_only=True, eq=False)
class ConfidenceWeighting(Scaled, MeanEstimator):
    """IM: Σ_b (share of the window in bin b) x (clean accuracy in bin b), ten bins of confidence.

    This is the clean accuracy with each row weighted by window share / clean share of its bin. Rows
    of the window in a bin that no clean row has cannot be weighted: the others stand for them, as
    weights of mean 1 make it. Where that is all of them, the clean accuracy is returned. The
    interval takes their accuracy for anything between 0 and 1.
    """

    name = "im"
    title = "importance weighting by confidence"
    reference = "Chen et al., ICML 2021 (Mandoline, one slice)"
    assumes_clean_class_mix = False
    smallest_window = 1
    usual_error = 1.3

    bin_accuracy_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Of clean rows, bin by bin; 0 where there is none."""
    bin_counts_: Labels = field(init=False, repr=False, metadata=stored(ARRAY))

    def _learn(self, rows: Rows) -> None:
        clean = rows.of(0)
        bins = confidence_bin(confidence(clean.logits, self._unit(self.temperature_)))
        right = (clean.logits.argmax(axis=1) == clean.y).astype(np.float64)
        self.bin_counts_ = np.bincount(bins, minlength=_BINS).astype(np.int64)
        sums = np.bincount(bins, right, _BINS)
        self.bin_accuracy_ = sums / np.maximum(1, self.bin_counts_)

    def _row_values(self, logits: FloatArray, second: FloatArray | None) -> FloatArray:
        bins = confidence_bin(confidence(logits, self._unit(self.temperature_)))
        return np.where(self.bin_counts_[bins] > 0, self.bin_accuracy_[bins], np.nan)

    def _own_sums(
        self, logits: FloatArray, second: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        values = self._row_values(logits, second)
        known = values[~np.isnan(values)]
        return np.array([known.sum(), (known**2).sum(), len(known)]), np.zeros(0)

    def _read_state(self, state: WindowState) -> Reading:
        total, squares, n = state.sums[2:]
        value, variance = self.clean_accuracy_, 0.0
        if n > 0:
            value, variance = mean_reading(float(total), float(squares), int(n))
        unknown = 1 - float(n) / state.n
        # The mean square of (a - value) where a is uniform between 0 and 1.
        return Reading(value, variance + unknown**2 * (1 / 12 + (value - 0.5) ** 2))

    def _check_fitted(self) -> None:
        super()._check_fitted()
        check_arrays((self.bin_accuracy_, np.float64, _BINS), (self.bin_counts_, np.int64, _BINS))
        if not ((self.bin_accuracy_ >= 0) & (self.bin_accuracy_ <= 1)).all():
            raise ValueError("bin_accuracy must be in [0, 1]")
        if (self.bin_counts_ < 0).any():
            raise ValueError("bin_counts must be counts")
