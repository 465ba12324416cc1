"""Checks of the values of scores: finite, sums of 1, probabilities declared as logits.

`check_input` calls them for values that fail a quick check.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError

# Fewer samples pass: by chance, one sample of logits may lie in [0, 1] and sum to 1.
MIN_CHECKED: Final = 8
# Number of samples that are checked for being probabilities or log-probabilities.
MAX_CHECKED: Final = 4096
# Rounding of probabilities: float16 with a thousand classes misses a sum of one by this much.
SUM_TOLERANCE: Final = 1e-3
# Sums of numbers with two or three decimals may miss one by more, up to this.
_MAX_TOLERANCE: Final = 0.1


def check_finite(array: NDArray[Any], kind: str, name: str) -> None:
    """Raise for the first sample with NaN, +inf, only -inf, or -inf where it is not allowed."""
    rows = array.reshape(len(array), -1)
    is_masked = np.isneginf(rows) & (kind in ("logits", "log_proba"))
    bad = np.flatnonzero(~(np.isfinite(rows) | is_masked).all(axis=1) | is_masked.all(axis=1))
    if len(bad):
        value = rows[bad[0]][~np.isfinite(rows[bad[0]])][0]
        only = "only " if array.ndim == 2 and np.isneginf(rows[bad[0]]).all() else ""
        raise InputError(
            f"{name} must be finite, got {only}{value} at index {bad[0]}. Try dropping that"
            " sample.",
            name,
        )


def check_rounded_sums(proba: NDArray[Any], name: str) -> None:
    """Raise unless the probabilities of each sample sum to 1, up to rounding."""
    sums = proba.sum(axis=1, dtype=np.float64)
    bad = np.flatnonzero(np.abs(sums - 1) > _sum_tolerance(proba))
    if len(bad):
        raise InputError(
            f"{name} must sum to 1 in each sample with input='proba', got {sums[bad[0]]:.4g} at"
            f" index {bad[0]} ({len(bad)} of {len(sums)} samples). Are its columns all classes and"
            " nothing else?",
            name,
        )


def check_not_probabilities(array: NDArray[Any]) -> None:
    """Raise if values in [0, 1] sum to 1 in each sample, up to rounding: probabilities."""
    if len(array) < MIN_CHECKED or (array == array[0]).all():
        return
    sums = array[:MAX_CHECKED].sum(axis=1, dtype=np.float64)
    if (np.abs(sums - 1) <= _sum_tolerance(array[:MAX_CHECKED])).all():
        raise InputError(
            "X must be logits, got values in [0, 1] that sum to 1 in each sample. Try"
            " input='proba', or the scores before the softmax.",
            "input",
        )


def _sum_tolerance(proba: NDArray[Any]) -> float:
    """Return how far sums may be from 1: rounded entries miss it by half a last digit each."""
    tolerance = SUM_TOLERANCE
    for digit in (0.001, 0.01):
        if (np.abs(proba / digit - np.round(proba / digit)) < 1e-3).all():
            tolerance = max(tolerance, min(digit / 2 * proba.shape[1], _MAX_TOLERANCE))
    return tolerance + 1e-6
