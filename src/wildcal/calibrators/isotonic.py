"""Isotonic regression of the top-label confidence (Zadrozny and Elkan, 2002)."""

from dataclasses import dataclass, field
from typing import Any

from wildcal.calibrators._isotonic import fit_isotonic
from wildcal.core.arrays import Array, BoolArray, FloatArray
from wildcal.core.calibrator import TopLabelCalibrator
from wildcal.core.piecewise import interpolate, pad, slopes


@dataclass(kw_only=True, eq=False, repr=False)
class TopLabelIsotonic(TopLabelCalibrator):
    """q = f(confidence) with the non-decreasing f closest to the observed accuracy.

    f minimizes the sum of (f(confidence) - correct)^2. It is linear between its thresholds and
    constant outside; samples of equal confidence are one point with their mean accuracy.

    Attributes
    ----------
    knots_, values_, slopes_
        f as a function of 1 - confidence: increasing knots, the value at each and the slope to
        the right of it, padded with infinite knots.

    References
    ----------
    Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability
    estimates, KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 80)
    >>> y = np.repeat([0, 0, 0, 1], 20)  # 75 % are classified correctly
    >>> TopLabelIsotonic().fit(logits, y).confidence(logits[:1])
    array([0.75])
    """

    name = "isotonic"
    title = "isotonic regression of the confidence"
    reference = "Zadrozny and Elkan, KDD 2002"

    knots_: FloatArray = field(init=False)
    values_: FloatArray = field(init=False)
    slopes_: FloatArray = field(init=False)

    def _fit_top_label(self, rest: FloatArray, correct: BoolArray, weight: FloatArray) -> None:
        # -rest is the confidence up to a constant, with all digits.
        x, f = fit_isotonic(-rest, correct, weight)
        knots, values = -x[::-1], f[::-1]
        self.knots_, self.values_, self.slopes_ = pad(knots, values, slopes(knots, values))

    def _top_probability(self, xp: Any, rest: Array) -> Array:
        return interpolate(xp, rest, self.knots_, self.values_, self.slopes_)
