"""Metrics for two classes: the error of class 1, calibration slope and intercept, a test."""

from typing import Any, Final

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.optimize import fit_logistic
from wildcal.metrics._scores import Scores, measure, per_replicate
from wildcal.metrics.calibration_error import compute_ece

# Largest slope and intercept, also those of replicates with separated classes.
_STEEPEST: Final = 100.0
_SMALLEST: Final = 1e-12


def binary_ece(y: Any, proba: Any, *, n_bins: int = 15, sample_weight: Any = None) -> float:
    """Return the expected calibration error of the probability of class 1.

    Parameters
    ----------
    y, proba
        Labels (n,) and probabilities (n, 2). Samples with y = -1 (OOD) are left out.
    n_bins
        Number of equal-width bins.
    sample_weight
        Counts (n,).

    Examples
    --------
    >>> round(binary_ece([0, 1], np.array([[0.8, 0.2], [0.3, 0.7]])), 12)
    0.25
    """
    return measure(compute_binary_ece, y, proba, sample_weight, ood=False, n_bins=n_bins)


def calibration_slope(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return b of the logistic regression logit P(y = 1) = a + b logit(p); 1 if calibrated.

    Below 1 the probabilities are too extreme. NaN if a class is missing or the classes are
    separated. Parameters as in `binary_ece`.

    References
    ----------
    Cox (1958), "Two further applications of a model for binary regression".
    """
    return measure(compute_calibration_slope, y, proba, sample_weight, ood=False)


def calibration_intercept(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return a of logit P(y = 1) = a + logit(p): calibration in the large, 0 if calibrated.

    Above 0 class 1 is more frequent than predicted. NaN if a class is missing. Parameters as in
    `binary_ece`.
    """
    return measure(compute_calibration_intercept, y, proba, sample_weight, ood=False)


def spiegelhalter_z(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    r"""Return Spiegelhalter's statistic, standard normal if the probabilities are calibrated.

    .. math:: z = \sum (y - p)(1 - 2p) / \sqrt{\sum (1 - 2p)^2 p (1 - p)}

    NaN if all p are 0, 1/2 or 1. Parameters as in `binary_ece`.

    References
    ----------
    Spiegelhalter (1986), "Probabilistic prediction in patient management and clinical trials".
    """
    return measure(compute_spiegelhalter_z, y, proba, sample_weight, ood=False)


def compute_binary_ece(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `binary_ece`."""
    return compute_ece(scores.positive, weights, n_bins=n_bins)


def compute_spiegelhalter_z(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `spiegelhalter_z`."""
    event = scores.positive
    p = event.confidence
    total = -event.gap * (1 - 2 * p) @ weights
    variance = (1 - 2 * p) ** 2 * p * (1 - p) @ weights
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(variance > 0, total / np.sqrt(variance), np.nan)


def compute_calibration_slope(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `calibration_slope`. Replicates with separated classes have the steepest slope."""
    x, y = _logits_and_labels(scores)
    full = weights if weights.ndim == 1 else scores.weight
    used = full > 0
    if _side(y[used], x[used]):
        return np.full(weights.shape[1:], np.nan)[()]
    design = np.column_stack([np.ones(len(x)), x])
    start = fit_logistic(design, y, full, np.zeros(2)).x

    def value(w: FloatArray) -> float:
        drawn = w > 0
        side = _side(y[drawn], x[drawn])
        slope = side * _STEEPEST if side else fit_logistic(design, y, w, start).x[1]
        return float(np.clip(slope, -_STEEPEST, _STEEPEST))

    return per_replicate(value, weights)


def compute_calibration_intercept(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `calibration_intercept`. Replicates of one class have the largest intercept."""
    from scipy.optimize import brentq
    from scipy.special import expit

    x, y = _logits_and_labels(scores)
    used = y[(weights if weights.ndim == 1 else scores.weight) > 0]
    if used.all() or not used.any():
        return np.full(weights.shape[1:], np.nan)[()]

    def value(w: FloatArray) -> float:
        def missing(a: float) -> float:
            return float(w @ (expit(x + a) - y))

        if missing(_STEEPEST) <= 0:
            return _STEEPEST
        if missing(-_STEEPEST) >= 0:
            return -_STEEPEST
        return float(brentq(missing, -_STEEPEST, _STEEPEST, xtol=1e-9))

    return per_replicate(value, weights)


def _logits_and_labels(scores: Scores) -> tuple[FloatArray, BoolArray]:
    event = scores.positive
    p = np.clip(event.confidence, _SMALLEST, 1 - _SMALLEST)
    return np.log(p) - np.log1p(-p), event.correct


def _side(y: BoolArray, x: FloatArray) -> int:
    """Return 1 if class 1 lies above class 0, -1 if below, 0 if they overlap."""
    if not y.any() or y.all() or x[~y].max() <= x[y].min():
        return 1
    if x[~y].min() >= x[y].max():
        return -1
    return 0
