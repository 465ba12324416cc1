"""Spline calibration: a cubic spline through the cumulative error (Gupta et al., 2021)."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from wildcal.calibrators._isotonic import group_ties
from wildcal.core.arrays import Array, BoolArray, FloatArray
from wildcal.core.calibrator import TopLabelCalibrator
from wildcal.core.piecewise import interpolate, pad, slopes
from wildcal.core.validation import check_number

# Parts of a tie that is wider than half the distance of two knots.
_TIE_PARTS: Final = 100


def fit_spline(
    rest: FloatArray, correct: BoolArray, weight: FloatArray, n_knots: int
) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values of 1 - confidence, and the recalibrated confidence at each."""
    from scipy.interpolate import CubicSpline  # here: prediction does not need SciPy

    x, accuracy, w = group_ties(-rest, correct, weight)
    # One score has no curve, but it has an accuracy; that of 1 or 0 a spline only approximates.
    if len(x) == 1 or correct.all() or not correct.any():
        return -x[[-1]], accuracy[[-1]]
    confidence = 1 + x
    n_parts = np.where(w * n_knots > 0.5 * w.sum(), _TIE_PARTS, 1)
    score = np.repeat(np.arange(len(x)), n_parts)
    w = (w / n_parts)[score]
    mass = np.cumsum(w)
    t = (mass - mass[0]) / (mass[-1] - mass[0])
    error = np.cumsum(w * (accuracy - confidence)[score]) / mass[-1]
    basis = CubicSpline(np.linspace(0, 1, n_knots), np.eye(n_knots), bc_type="natural")
    root = np.sqrt(w)
    at_knots = np.linalg.lstsq(basis(t) * root[:, None], error * root, rcond=None)[0]
    slope = np.bincount(score, basis(t, 1) @ at_knots) / n_parts
    return -x[::-1], (confidence + slope)[::-1]


@dataclass(kw_only=True, eq=False, repr=False)
class SplineCalibration(TopLabelCalibrator):
    """q = s + D'(t): the confidence s plus the slope of the cumulative calibration error.

    The N samples are sorted by confidence. D(i / (N - 1)), the sum of correct - confidence over the
    samples 0..i divided by N, is fitted by a natural cubic spline. Its slope at a sample is the
    error of that confidence. Between samples q is linear, outside it is constant, and it is clipped
    to [0, 1]. It need not be monotone.

    Parameters
    ----------
    n_knots
        Knots of the spline, equally spaced in t.

    Attributes
    ----------
    knots_, values_, slopes_
        q as a function of 1 - confidence: the distinct values of the calibration samples in
        increasing order, q at each and the slope to the right of it, padded with infinite knots.

    Notes
    -----
    Samples of equal confidence are one point, after the last of them, with their common weight:
    t = (W_i - W_0) / (W_N - W_0) in cumulative weights W. Without ties and weights this is the
    published i / (N - 1). A tie that is wide, compared to the distance of the knots, enters as 100
    points on a line. If all samples are right, or none, q is 1 or 0. The published code swaps the
    two weights of the interpolation between samples; here they are in order.

    References
    ----------
    Gupta et al., Calibration of neural networks using splines, ICLR 2021.

    Examples
    --------
    >>> import numpy as np
    >>> score = np.linspace(0, 4, 200)  # 75 % are classified correctly, at every confidence
    >>> y = np.tile([0, 0, 0, 1], 50)
    >>> calibrator = SplineCalibration().fit(np.column_stack([score, -score]), y)
    >>> [round(float(q), 2) for q in calibrator.confidence([[0.5, -0.5], [2.0, -2.0]])]
    [0.77, 0.76]
    """

    name = "spline"
    title = "spline calibration"
    reference = "Gupta et al., ICLR 2021"

    n_knots: int = 6
    knots_: FloatArray = field(init=False)
    values_: FloatArray = field(init=False)
    slopes_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_number("n_knots", self.n_knots, 3, 1000, whole=True)

    def _fit_top_label(self, rest: FloatArray, correct: BoolArray, weight: FloatArray) -> None:
        knots, values = fit_spline(rest, correct, weight, self.n_knots)
        self.knots_, self.values_, self.slopes_ = pad(knots, values, slopes(knots, values))

    def _top_probability(self, xp: Any, rest: Array) -> Array:
        return interpolate(xp, rest, self.knots_, self.values_, self.slopes_)
