"""Reference profile: statistics of the uncalibrated predictions on the calibration set."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import Array, FloatArray, IntArray

# Scores of equal samples differ by rounding.
_ROUNDING: Final = 1e-9
CONFIDENCE_ROUNDING: Final = 1e-7
"""That of confidences, which are float32."""


def fit_threshold(
    scores: NDArray[Any], accuracy: float, rounding: float = _ROUNDING
) -> tuple[float, float]:
    """Return the threshold of `share_above`, and what a score at it counts.

    The mean of `share_above` of these scores is the accuracy, also where scores are equal.
    """
    n_right = round(len(scores) * accuracy)
    threshold = float(np.append(np.sort(scores), np.inf)[len(scores) - n_right]) - rounding
    n_above = int((scores >= threshold + 2 * rounding).sum())
    n_tied = int((scores >= threshold).sum()) - n_above
    return threshold, (n_right - n_above) / max(n_tied, 1)


def share_above(
    scores: NDArray[Any], threshold: float, tie_share: float, rounding: float = _ROUNDING
) -> Array:
    """Return 1 for scores above the threshold, `tie_share` for those at it, and 0 below."""
    share = np.where(scores >= threshold, tie_share, 0.0)
    return np.where(scores >= threshold + 2 * rounding, 1.0, share)


@dataclass(frozen=True)
class Profile:
    """Statistics of the in-distribution source samples of a fit, for drift and estimated accuracy.

    Confidence is that of the uncalibrated softmax, or the number itself with `input="confidence"`.
    """

    n_samples: int
    accuracy: float
    class_counts: IntArray
    """Predictions of each class."""
    histogram: IntArray
    """Samples by confidence, in 20 bins of equal width on [0, 1]."""
    atc_threshold: float
    """Confidence below which as many samples lie as are misclassified (Garg et al., 2022), less
    rounding."""
    label_counts: FloatArray | None = None
    """Weighted samples of each class."""
    atc_tie_share: float = field(default=1.0, metadata={"is_optional": True})
    """What a sample with that confidence counts, below 1 if many calibration samples have it."""

    def above_threshold(self, confidence: NDArray[Any]) -> FloatArray:
        """Return what each sample counts in the accuracy that ATC estimates."""
        scores, tie_share = confidence.astype(np.float64), self.atc_tie_share
        found = share_above(scores, self.atc_threshold, tie_share, CONFIDENCE_ROUNDING)
        return np.asarray(found)
