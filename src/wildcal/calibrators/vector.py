"""Vector scaling: a factor and an offset for the logit of every class."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal.calibrators.linear_map import (
    bound_linear,
    check_linear,
    check_strength,
    diagonal_scores,
    raw_logits,
    total_weight,
)
from wildcal.calibrators.linear_softmax import DiagonalSoftmax
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.arrays import FloatArray
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, REAL, stored


@final
@dataclass(kw_only=True, eq=False)
class VectorScaling(Calibrator):
    """p = softmax(v * z + b), one v and one b per class.

    v and b minimize the cross-entropy plus ``ridge K / N (|v - 1/T|² + |b|²)``, where T is the
    temperature of temperature scaling: classes with little data stay near that.

    Parameters
    ----------
    ridge
        Strength of the pull. At 0 this is the published method, whose minimum may lie at infinity.

    Notes
    -----
    Guo et al., On calibration of modern neural networks, ICML 2017, section 4.2. The ridge is
    ours, because a class with few held-out rows fixes neither of its two numbers. It pulls
    towards temperature scaling rather than towards v = 1: a pull towards 1 on K numbers holds
    back the one direction, scaling them all, that every class has data for.

    Adding a constant to a row changes the result, since v differs between classes. A logit of
    -inf rules its class out and tells the other classes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(20_000, 3))
    >>> noise = rng.gumbel(size=z.shape)  # the largest of z + noise is a draw from softmax(z)
    >>> y = (z * [1.0, 2.0, 0.5] + [0.0, 1.0, 0.0] + noise).argmax(axis=1)
    >>> VectorScaling().fit(z, y).scale_.round(1)
    array([1. , 2. , 0.5])
    """

    name = "vector"
    title = "vector scaling"
    reference = "Guo et al., ICML 2017"
    stores = "2 K numbers"
    preserves_accuracy = False
    shift_invariant = False

    ridge: float = field(default=0.1, metadata=stored(REAL))
    scale_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    intercept_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_options(self) -> None:
        check_strength("ridge", self.ridge)

    def _check_fitted(self) -> None:
        check_linear(self, scale_=1, intercept_=1)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        ts = fit_temperature(logits, y, weight=weight)
        n_classes = logits.shape[1]
        center = np.repeat([[1 / ts.temperature], [0.0]], n_classes, axis=1)
        ridge = np.full_like(center, self.ridge * n_classes / total_weight(y, weight))
        objective = DiagonalSoftmax(raw_logits, logits, y, weight, ridge, center)
        fit = objective.minimize(center)
        self.scale_, self.intercept_ = fit.theta
        return fit.summary(ts)

    def _bind(self, rows: Rows) -> Bound:
        theta = np.stack([self.scale_, self.intercept_])
        return bound_linear(rows.logits, raw_logits, diagonal_scores, theta)
