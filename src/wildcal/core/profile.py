"""Reference profile: statistics of the uncalibrated predictions on the calibration set."""

from dataclasses import dataclass

import numpy as np

from wildcal.core.arrays import (
    N_CONFIDENCE_BINS,
    FloatArray,
    IntArray,
    confidence_bins,
    uncalibrated_confidence,
)
from wildcal.core.validation import Samples


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


def make_profile(samples: Samples, input: str) -> Profile:
    """Return the profile of in-distribution samples."""
    predicted = samples.logits.argmax(axis=1)
    confidence = uncalibrated_confidence(samples.logits, input)
    correct = samples.y == (1 if input == "confidence" else predicted)
    n_wrong = int((~correct).sum())
    threshold = np.partition(confidence, n_wrong)[n_wrong] if n_wrong < len(correct) else 1.0
    return Profile(
        n_samples=len(correct),
        accuracy=float(correct.mean()),
        class_counts=np.bincount(predicted, minlength=samples.n_classes),
        histogram=np.bincount(confidence_bins(confidence), minlength=N_CONFIDENCE_BINS),
        atc_threshold=float(threshold),
        label_counts=np.bincount(samples.y, samples.weight, samples.n_classes).astype(np.float64),
    )
