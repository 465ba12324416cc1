"""Reference profile: what the uncalibrated predictions looked like at calibration time."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import LOG_TINY, FloatArray, IntArray, in_blocks

N_BINS: Final = 20


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


def make_profile(logits: FloatArray, y: IntArray, input: str) -> Profile:
    """Return the profile of in-distribution samples."""
    predicted = logits.argmax(axis=1)
    confidence = uncalibrated_confidence(logits, input)
    correct = y == (1 if input == "confidence" else predicted)
    n_wrong = int((~correct).sum())
    threshold = np.partition(confidence, n_wrong)[n_wrong] if n_wrong < len(correct) else 1.0
    return Profile(
        n_samples=len(correct),
        accuracy=float(correct.mean()),
        class_counts=np.bincount(predicted, minlength=logits.shape[1]),
        histogram=np.bincount(confidence_bins(confidence), minlength=N_BINS),
        atc_threshold=float(threshold),
    )


def uncalibrated_confidence(logits: FloatArray, input: str) -> NDArray[Any]:
    """Return the largest softmax probability; with `input="confidence"` the number itself."""
    return in_blocks(partial(_softmax_of, 1 if input == "confidence" else None), logits)


def confidence_bins(confidence: NDArray[Any]) -> IntArray:
    """Return the bin of each confidence. Numbers such as 0.6 belong to the bin above."""
    return np.minimum((confidence * N_BINS + 1e-5).astype(np.int64), N_BINS - 1)


def _softmax_of(column: int | None, z: NDArray[Any]) -> NDArray[Any]:
    """Return the softmax probability of a class, of the predicted one if it is None."""
    below = np.maximum(z - z.max(axis=1, keepdims=True), LOG_TINY)
    e = np.exp(below.astype(np.float32))
    return np.asarray((1 if column is None else e[:, column]) / e.sum(axis=1))
