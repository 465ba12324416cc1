"""Reference profile: statistics of the uncalibrated predictions on the calibration set."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import LOG_TINY, FloatArray, IntArray, in_blocks
from wildcal.core.validation import Samples

N_CONFIDENCE_BINS: Final = 20
"""Bins of the histogram."""


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


def uncalibrated_confidence(logits: FloatArray, input: str) -> NDArray[Any]:
    """Return the largest softmax probability; with `input="confidence"` the number itself."""

    def confidence(z: NDArray[Any]) -> NDArray[Any]:
        e = np.exp(np.maximum(z - z.max(axis=1, keepdims=True), LOG_TINY).astype(np.float32))
        return np.asarray((e[:, 1] if input == "confidence" else 1) / e.sum(axis=1))

    return in_blocks(confidence, logits)


def confidence_bins(confidence: NDArray[Any]) -> IntArray:
    """Return the bin of each confidence. Numbers such as 0.6 belong to the bin above."""
    bins = (confidence * N_CONFIDENCE_BINS + 1e-5).astype(np.int64)
    return np.minimum(bins, N_CONFIDENCE_BINS - 1)
