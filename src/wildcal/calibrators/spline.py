"""Spline calibration: a cubic spline through the cumulative error (Gupta et al., 2021)."""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, final

import numpy as np

from wildcal.calibrators.piecewise import interpolated
from wildcal.calibrators.top_label import TopLabelMap
from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.calibrator import FitSummary
from wildcal.core.checks import check_choice, check_count
from wildcal.core.room import check_scores
from wildcal.core.stored import ARRAY, INTEGER, TEXT, stored

Interp: TypeAlias = Literal["exact", "reference"]
Fill: TypeAlias = Literal["scale", "zeros"]

# Rows of the matrices of a spline that are made together.
_ROWS: Final = 1 << 14
# What a fit takes for each distinct confidence: some columns, and three matrices.
_BYTES, _BYTES_A_KNOT = 120, 24


def natural_spline(t: FloatArray, n_knots: int) -> tuple[FloatArray, FloatArray]:
    """Return the matrices that take knot values to the spline and to its slope at t in [0, 1].

    The natural cubic spline with equally spaced knots y has second derivatives M with M = 0 at
    both ends and M_{j-1} + 4 M_j + M_{j+1} = (6 / d²) (y_{j-1} - 2 y_j + y_{j+1}) in between.
    """
    d = 1.0 / (n_knots - 1)
    eye = np.eye(n_knots)
    inner = eye[:-2] + 4 * eye[1:-1] + eye[2:]
    curvature = np.zeros((n_knots, n_knots))  # M = curvature @ y
    curvature[1:-1] = np.linalg.solve(inner[:, 1:-1], 6 / d**2 * np.diff(eye, 2, axis=0))
    j = np.clip((t / d).astype(np.intp), 0, n_knots - 2)
    x = (t - j * d)[:, None]
    y0, y1, m0, m1 = eye[j], eye[j + 1], curvature[j], curvature[j + 1]
    value = (
        y0
        + (y1 - y0) * x / d
        + m0 * (x**2 / 2 - x**3 / (6 * d) - d * x / 3)
        + m1 * (x**3 / (6 * d) - d * x / 6)
    )
    slope = (y1 - y0) / d + m0 * (x - x**2 / (2 * d) - d / 3) + m1 * (x**2 / (2 * d) - d / 6)
    return value, slope


def fit_spline(
    score: FloatArray, correct: BoolArray, weight: FloatArray | None, n_knots: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return increasing scores, the accuracy recalibrated at each, and the knot values."""
    s, index = np.unique(score, return_inverse=True)
    weight = np.ones(len(score)) if weight is None else weight
    w = np.bincount(index, weight)
    accuracy = np.bincount(index, weight * correct) / w
    if len(s) == 1:  # one score has no curve, but it has an accuracy
        return s, accuracy, np.zeros(n_knots)
    check_scores(len(s), _BYTES + _BYTES_A_KNOT * n_knots)
    mass = np.cumsum(w)
    t = (mass - mass[0]) / (mass[-1] - mass[0])
    gap = np.cumsum(w * (accuracy - s)) / mass[-1]
    root = np.sqrt(w)
    value, slope = np.empty((len(t), n_knots)), np.empty((len(t), n_knots))
    for first in range(0, len(t), _ROWS):  # in between it takes six matrices more
        piece = slice(first, first + _ROWS)
        value[piece], slope[piece] = natural_spline(t[piece], n_knots)
    value *= root[:, None]
    knots = np.linalg.lstsq(value, gap * root, rcond=None)[0]
    return s, s + slope @ knots, knots


@final
@dataclass(kw_only=True, eq=False)
class SplineCalibration(TopLabelMap):
    """q = s + D'(t): the confidence s plus the slope of the cumulative calibration error.

    The tuning rows are sorted by confidence; D(i / (N - 1)) = sum of (correct - confidence) of the
    rows 0..i, divided by N, is fitted by a natural cubic spline, whose slope at a row says by how
    much its confidence is off. Between rows q is linear, outside it is constant, and it is cut to
    [0, 1]. It need not be monotone.

    Parameters
    ----------
    n_knots
        Knots of the spline, equally spaced in t.
    interp
        "exact" (default), or "reference": the published code swaps the two weights when it
        interpolates between neighboring rows; use it to reproduce published numbers only.
    fill
        "scale" (default): the other classes share 1 - q. "zeros": they get nothing, as in the
        published matrices; rows then do not sum to one, and the log loss is that of a wrong zero.

    Notes
    -----
    Rows with equal confidence are one point, taken after the last of them, with their common
    weight: t = (W_i - W_0) / (W_N - W_0) in cumulative weights W. Without ties or weights this is
    the published i / (N - 1); with them it does not depend on the order of the rows, and weight 2
    is a row twice. With fewer rows than knots the smallest spline that fits is taken; a single
    confidence is replaced by its accuracy, and so are all where every row is right, or none.

    Gupta et al., Calibration of neural networks using splines, ICLR 2021.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0, n_ood_tuning=0)
    >>> calibrator = SplineCalibration().fit(*suite.tuning)
    >>> calibrator.fit_.loss_after < calibrator.fit_.loss_before
    True
    """

    name = "spline"
    title = "spline calibration"
    reference = "Gupta et al., ICLR 2021"
    stores = "2 numbers for each tuning row"

    n_knots: int = field(default=6, metadata=stored(INTEGER))
    interp: Interp = field(default="exact", metadata=stored(TEXT))
    fill: Fill = field(default="scale", metadata=stored(TEXT))
    scores_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    values_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    knots_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    """Values of the spline at its knots; kept to look at, prediction does not need them."""

    def _check_options(self) -> None:
        check_count("n_knots", self.n_knots, least=3, most=1000)
        check_choice("interp", self.interp, ("exact", "reference"))
        check_choice("fill", self.fill, ("scale", "zeros"))

    def _check_fitted(self) -> None:
        if self.scores_.ndim != 1 or self.scores_.shape != self.values_.shape:
            raise ValueError("scores_ and values_ must be two arrays of one length.")
        if not len(self.scores_) or (np.diff(self.scores_) <= 0).any():
            raise ValueError("scores_ must increase.")
        if self.knots_.shape != (self.n_knots,):
            raise ValueError(f"knots_ must have shape ({self.n_knots},), got {self.knots_.shape}.")

    def _fit_map(
        self, confidence: FloatArray, correct: BoolArray, weight: FloatArray | None
    ) -> FitSummary:
        self.scores_, self.values_, self.knots_ = fit_spline(
            confidence, correct, weight, self.n_knots
        )
        if correct.all() or not correct.any():  # the accuracy is known; a spline only approaches it
            self.values_ = np.full(len(self.scores_), float(correct[0]))
        return FitSummary()

    def _map(self, confidence: FloatArray) -> FloatArray:
        s, r = self.scores_, self.values_
        if self.interp == "exact" or len(s) == 1:
            return np.clip(interpolated(confidence, s, r), 0.0, 1.0)
        j = np.clip(np.searchsorted(s, confidence), 1, len(s) - 1)
        part = np.clip((confidence - s[j - 1]) / (s[j] - s[j - 1]), 0.0, 1.0)
        swapped = part * r[j - 1] + (1 - part) * r[j]
        ends = (confidence <= s[0]) | (confidence >= s[-1])
        return np.clip(np.where(ends, np.interp(confidence, s, r), swapped), 0.0, 1.0)

    def _drops_rest(self) -> bool:
        return self.fill == "zeros"
