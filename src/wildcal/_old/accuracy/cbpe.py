"""CBPE: mean probability of the predicted class, each class calibrated where that helps."""

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from wildcal._old.accuracy.estimator import check_arrays
from wildcal._old.accuracy.means import MeanEstimator, Scaled
from wildcal._old.accuracy.rows import Rows, proba
from wildcal._old.core.arrays import BoolArray, FloatArray, Labels
from wildcal._old.core.stored import ARRAY, stored

_PARTS: Final = 10
_BINS: Final = 10
_TOO_GOOD: Final = 0.999
"""An AUROC above which a class is left as it is."""


@final
@dataclass(kw_only=True, eq=False)
class CalibratedPerformance(Scaled, MeanEstimator):
    """CBPE: the mean over the window of the calibrated probability of the predicted class.

    Each class's probability is calibrated by isotonic regression against all others on the clean
    rows, if that lowers the error of ten equal-mass bins over ten 90/10 splits and the class's
    AUROC is at most 0.999; rows are then divided by their sum. It corrects no shift: it is average
    confidence after `irova`, class by class.

    NannyML draws its splits at random; here the rows, sorted by probability, go to the ten parts in
    turn, so the fit does not depend on the order of rows. A class that the clean rows do not have
    keeps its probability (NannyML stops). NannyML's probabilities are those it is given: use
    ``scaled=False`` for that.
    """

    name = "cbpe"
    title = "confidence-based performance estimation"
    reference = "NannyML 0.13"
    assumes_clean_class_mix = False
    smallest_window = 1
    usual_error = 1.3

    knots_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Probabilities where the curves bend, class after class."""
    heights_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    lengths_: Labels = field(init=False, repr=False, metadata=stored(ARRAY))
    """Knots of each class; 0 where it is left as it is."""

    def _learn(self, rows: Rows) -> None:
        clean = rows.of(0)
        p = proba(clean.logits, self._unit(self.temperature_))
        curves = [_curve_if_better(p[:, k], clean.y == k) for k in range(p.shape[1])]
        self.knots_ = np.concatenate([x for x, _ in curves])
        self.heights_ = np.concatenate([y for _, y in curves])
        self.lengths_ = np.array([len(x) for x, _ in curves], np.int64)

    def _row_values(self, logits: FloatArray, second: FloatArray | None) -> FloatArray:
        p = proba(logits, self._unit(self.temperature_))
        ends = np.cumsum(self.lengths_)
        for k in np.flatnonzero(self.lengths_):
            part = slice(ends[k] - self.lengths_[k], ends[k])
            p[:, k] = np.interp(p[:, k], self.knots_[part], self.heights_[part])
        total = p.sum(axis=1)
        top = np.take_along_axis(p, logits.argmax(axis=1)[:, None], axis=1)[:, 0]
        return np.where(total > 0, top / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])

    def _check_fitted(self) -> None:
        super()._check_fitted()
        lengths = self.lengths_
        check_arrays((lengths, np.int64, self.n_classes_))
        if (lengths < 0).any():
            raise ValueError("lengths must be counts")
        total = int(lengths.sum())
        check_arrays((self.knots_, np.float64, total), (self.heights_, np.float64, total))
        for values in (self.knots_, self.heights_):
            if not ((values >= 0) & (values <= 1)).all():
                raise ValueError("knots and heights must be in [0, 1]")
        ends = np.cumsum(lengths)
        for values in (self.knots_, self.heights_):
            for start, end in zip(ends - lengths, ends, strict=True):
                if (np.diff(values[start:end]) < 0).any():
                    raise ValueError("knots and heights of a class must not fall")

    def _describe(self) -> list[str]:
        return [f"{(self.lengths_ > 0).sum()} of {self.n_classes_} classes are calibrated."]


Curve = tuple[FloatArray, FloatArray]


def isotonic_curve(p: FloatArray, hit: BoolArray) -> Curve:
    """Return the corners of the rising curve through (p, hit) with the least squared error."""
    from scipy.optimize import isotonic_regression  # slow to import

    knots, inverse, counts = np.unique(p, return_inverse=True, return_counts=True)
    mean = np.bincount(inverse, hit.astype(np.float64)) / counts
    heights = isotonic_regression(mean, weights=counts.astype(np.float64)).x
    flat = heights[1:] == heights[:-1]
    corner = ~(np.r_[False, flat] & np.r_[flat, False])  # not inside a flat part
    return knots[corner], np.clip(heights[corner], 0.0, 1.0)


def _curve_if_better(p: FloatArray, hit: BoolArray) -> Curve:
    nothing = np.zeros(0), np.zeros(0)
    if hit.all() or not hit.any() or len(p) < 2 * _PARTS or auroc(p, hit) > _TOO_GOOD:
        return nothing
    order = np.lexsort((hit, p))
    part = np.empty(len(p), np.int64)
    part[order] = np.arange(len(p)) % _PARTS
    calibrated = np.empty(len(p))
    for number in range(_PARTS):
        held_out = part == number
        calibrated[held_out] = np.interp(p[held_out], *isotonic_curve(p[~held_out], hit[~held_out]))
    if equal_mass_error(calibrated, hit) < equal_mass_error(p, hit):
        return isotonic_curve(p, hit)
    return nothing


def auroc(score: FloatArray, hit: BoolArray) -> float:
    """Return how often a hit has a larger score than a miss, ties counting half."""
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    hits, misses = hit.sum(), (~hit).sum()
    return float((rank[hit].sum() - hits * (hits + 1) / 2) / (hits * misses))


def equal_mass_error(p: FloatArray, hit: BoolArray) -> float:
    """Return Σ share |mean p - share of hits| over ten bins with equally many rows."""
    order = np.lexsort((hit, p))
    bins = [part for part in np.array_split(order, _BINS) if len(part)]
    return float(sum(len(b) * abs(p[b].mean() - hit[b].mean()) for b in bins) / len(p))
