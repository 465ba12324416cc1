"""Reference profile: statistics of the uncalibrated predictions on the calibration set."""

from dataclasses import dataclass

from wildcal.core.arrays import FloatArray, IntArray


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
    """Confidence below which as many samples lie as are misclassified (Garg et al., 2022)."""
    label_counts: FloatArray | None = None
    """Weighted samples of each class."""
