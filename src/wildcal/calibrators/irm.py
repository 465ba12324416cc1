"""IRM: one isotonic regression for all classes (Zhang et al., 2020)."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from wildcal.calibrators._isotonic import fit_isotonic, normalized
from wildcal.core.arrays import Array, FloatArray, in_blocks, is_top_class, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.piecewise import interpolate, pad, slopes
from wildcal.core.validation import Samples

# The other classes stay below the predicted one by this part of its probability. float32 resolves
# it after every later division.
_MARGIN: Final = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class IsotonicMulticlass(Calibrator):
    """p_k = f(softmax(z)_k) / sum, with one non-decreasing f for all classes.

    f is the isotonic regression of 1[y = k] on softmax(z)_k over all pairs of a sample and a class.
    It is linear between its thresholds and constant outside. A sample with f = 0 for all classes
    gets the uniform distribution.

    Attributes
    ----------
    knots_, values_, slopes_
        Thresholds of f, its value at each and the slope to the right of it, padded with infinite
        knots.

    Notes
    -----
    f does not decrease, so classes keep their order, but a plateau of f makes some equal. As
    published, 1e-9 softmax(z) is added to f. Where that is lost to rounding, the predicted class is
    kept by a cap: all others get at most 1 - 1e-6 times its probability.

    References
    ----------
    Zhang et al., Mix-n-match: ensemble and compositional methods for uncertainty calibration in
    deep learning, ICML 2020. The probabilities there are not normalized.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 80)
    >>> y = np.repeat([0, 0, 0, 1], 20)  # 75 % are classified correctly
    >>> IsotonicMulticlass().fit(logits, y).predict_proba(logits[:1]).round(6)
    array([[0.75, 0.25]])
    """

    name = "irm"
    title = "isotonic regression over all classes"
    reference = "Zhang et al., ICML 2020"
    preserves_accuracy = True

    knots_: FloatArray = field(init=False)
    values_: FloatArray = field(init=False)
    slopes_: FloatArray = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        p = in_blocks(partial(softmax, np), data.logits)
        is_label = np.arange(data.n_classes) == data.y[:, None]
        weight = np.repeat(data.weight, data.n_classes)
        knots, values = fit_isotonic(p.ravel(), is_label.ravel(), weight)
        self.knots_, self.values_, self.slopes_ = pad(knots, values, slopes(knots, values))
        return FitInfo("mse")

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return f(softmax(z)), normalized, with the predicted class of the logits."""
        p = softmax(xp, z)
        p = normalized(xp, interpolate(xp, p, self.knots_, self.values_, self.slopes_), p)
        # f does not decrease: the largest entry is that of the predicted class, or equal to it.
        largest = xp.max(p, axis=-1, keepdims=True)
        top = is_top_class(xp, z)
        p = xp.where(top > 0, largest, xp.minimum(p, (1 - _MARGIN) * largest))
        return p / xp.sum(p, axis=-1, keepdims=True)
