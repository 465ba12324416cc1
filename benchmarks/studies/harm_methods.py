"""What harm.py compares: our methods, and scikit-learn's on the same rows.

`CalibratedClassifierCV` refuses rows in which a class is missing, as fifty labels of many classes
must have it; so its own parts are called here, one class against the others and then normalized.
"""

from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.calibration import _SigmoidCalibration, _TemperatureScaling
from sklearn.isotonic import IsotonicRegression

from wildcal import get_calibrator

SKLEARN = ("sklearn sigmoid", "sklearn isotonic", "sklearn temperature")
OURS = ("ts", "ets", "energy", "irova", "platt", "beta", "isotonic", "auto")
METHODS = ("identity", *OURS, *SKLEARN)


def calibrated(method: str, z: Any, y: Any, asked: Any, raw: bool) -> Any:
    """Fit a method on labeled scores, and return the probabilities of others."""
    if method == "identity":
        return softmax(asked, axis=1)
    if method in OURS:
        return get_calibrator(method).fit(z, y).predict_proba(asked)
    # scikit-learn reads decision functions where there are some, and else probabilities.
    scores, asked = (z, asked) if raw else (softmax(z, axis=1), softmax(asked, axis=1))
    if method == "sklearn temperature":
        return _TemperatureScaling().fit(scores, y).predict(asked)
    n_classes = z.shape[1]
    if n_classes == 2:
        less = (scores[:, 0], asked[:, 0]) if raw else (0.0, 0.0)
        right = _one(method, scores[:, 1] - less[0], y == 1, asked[:, 1] - less[1])
        return np.stack([1 - right, right], axis=1)
    columns = [_one(method, scores[:, k], y == k, asked[:, k]) for k in range(n_classes)]
    proba = np.stack(columns, axis=1)
    total = proba.sum(axis=1, keepdims=True)
    return np.where(total > 0, proba / np.where(total > 0, total, 1.0), 1 / n_classes)


def _one(method: str, scores: Any, is_class: Any, asked: Any) -> Any:
    kind = (
        IsotonicRegression(out_of_bounds="clip")
        if method == "sklearn isotonic"
        else _SigmoidCalibration()
    )
    return kind.fit(scores, is_class.astype(float)).predict(asked)
