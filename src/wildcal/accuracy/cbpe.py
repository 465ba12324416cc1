"""CBPE: the mean probability of the predicted class after calibration of each class (NannyML)."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from scipy.stats import rankdata

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.calibrators._isotonic import fit_isotonic
from wildcal.core.arrays import Array, BoolArray, FloatArray, IntArray

_N_FOLDS: Final = 10
_N_BINS: Final = 10
# A class with a larger AUROC is not calibrated.
_MAX_AUROC: Final = 0.999

_Curve: TypeAlias = tuple[FloatArray, FloatArray]


@dataclass(kw_only=True, eq=False, repr=False)
class CBPE(AccuracyEstimator):
    """Confidence-based performance estimation.

    The probability of each class is calibrated by isotonic regression against all others on source
    samples, if that lowers its calibration error in ten-fold cross-validation and the AUROC of the
    class is at most 0.999. Then each sample is divided by its sum. The estimate is the mean
    probability of the predicted class. Shift is not corrected.

    Attributes
    ----------
    curves_
        For each class the thresholds and values of its isotonic regression, None if not calibrated.

    Notes
    -----
    NannyML draws its folds at random. Here samples are sorted by probability and go to the folds in
    turn, so the order of samples does not matter.
    """

    name = "cbpe"
    title = "confidence-based performance estimation"
    reference = "NannyML 0.13"
    needs_classes = True
    min_window = 1
    default_relative_error = 1.3

    curves_: tuple[_Curve | None, ...] = field(init=False)

    def _fit(self, p: FloatArray, y: IntArray) -> None:
        self.curves_ = tuple(_curve(p[:, k], y == k) for k in range(p.shape[1]))

    def _values(self, p: FloatArray, second_logits: FloatArray | None = None) -> Array:
        predicted = p.argmax(axis=1)
        calibrated = p.copy()
        for k, curve in enumerate(self.curves_):
            if curve is not None:
                calibrated[:, k] = np.interp(p[:, k], *curve)
        total = calibrated.sum(axis=1)
        top = calibrated[np.arange(len(p)), predicted]
        return np.where(total > 0, top / np.where(total > 0, total, 1.0), 1 / p.shape[1])


def _curve(p: FloatArray, is_class: BoolArray) -> _Curve | None:
    """Return the isotonic regression of a class, None if it does not help."""
    n, n_class = len(p), int(is_class.sum())
    if not 0 < n_class < n or n < 2 * _N_FOLDS:
        return None
    rank_sum = rankdata(p)[is_class].sum()
    if (rank_sum - n_class * (n_class + 1) / 2) / (n_class * (n - n_class)) > _MAX_AUROC:
        return None
    order = np.lexsort((is_class, p))
    target, weight = is_class.astype(np.float64), np.ones(n)
    out = np.empty(n)
    for fold in range(_N_FOLDS):
        held_out = np.zeros(n, dtype=bool)
        held_out[order[fold::_N_FOLDS]] = True
        curve = fit_isotonic(p[~held_out], target[~held_out], weight[~held_out])
        out[held_out] = np.interp(p[held_out], *curve)
    if _calibration_error(out, target) >= _calibration_error(p, target):
        return None
    return fit_isotonic(p, target, weight)


def _calibration_error(p: FloatArray, target: FloatArray) -> float:
    """Return the calibration error of one class in bins of equally many samples."""
    bins = np.array_split(np.lexsort((target, p)), _N_BINS)
    return float(sum(abs((p[b] - target[b]).sum()) for b in bins) / len(p))
