"""Reference profile: statistics of the uncalibrated predictions on the calibration set."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import CONFIDENCE_ROUNDING, FloatArray, share_above


@dataclass(frozen=True)
class Profile:
    """Statistics of the in-distribution source samples of a fit, for drift and estimated accuracy.

    Samples are weighted. Confidence is that of the uncalibrated softmax, or the number itself with
    `input="confidence"`.
    """

    n_samples: int
    accuracy: float
    class_counts: FloatArray
    """Predictions of each class."""
    histogram: FloatArray
    """Samples by confidence, in 20 bins of equal width on [0, 1]."""
    atc_threshold: float
    """Confidence below which as many samples lie as are misclassified (Garg et al., 2022), less
    rounding."""
    label_counts: FloatArray | None = None
    """Samples of each class."""
    atc_tie_share: float = field(default=1.0, metadata={"is_optional": True})
    """What a sample with that confidence counts, below 1 if many calibration samples have it."""

    def above_threshold(self, confidence: NDArray[Any]) -> FloatArray:
        """Return what each sample counts in the accuracy that ATC estimates."""
        scores, tie_share = confidence.astype(np.float64), self.atc_tie_share
        found = share_above(scores, self.atc_threshold, tie_share, CONFIDENCE_ROUNDING)
        return np.asarray(found)
