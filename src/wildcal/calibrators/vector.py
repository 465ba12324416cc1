"""Vector scaling: a factor and an offset for the logit of every class."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal.calibrators.linear_map import (
    bound_linear,
    check_linear,
    check_strength,
    diagonal_scores,
    origin_of,
    raw_logits,
    total_weight,
)
from wildcal.calibrators.linear_softmax import DiagonalSoftmax
from wildcal.calibrators.soft_rows import check_prior, soft_weight_of
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, fit_temperature
from wildcal.calibrators.tied import minimize_tied
from wildcal.core.arrays import FloatArray
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, FLAG, REAL, stored


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
    tied
        One factor for all classes, and an offset for each: p = softmax(z / T + b). It shifts mass
        between classes and changes nothing else, with half of the numbers to learn.
    prior
        Strength of soft rows, which pull towards softmax(z) itself while there are few mistakes to
        learn from; see `TemperatureScaling`. With `tied` only.

    Notes
    -----
    Guo et al., On calibration of modern neural networks, ICML 2017, section 4.2; tied, it is
    bias-corrected temperature scaling of Alexandari et al., ICML 2020. The ridge is
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
    reference = "Guo et al., ICML 2017"
    preserves_accuracy = False
    shift_invariant = False
    state = "flat"

    ridge: float = field(default=0.1, metadata=stored(REAL))
    tied: bool = field(default=False, metadata=stored(FLAG))
    prior: float = field(default=0.0, metadata=stored(REAL))
    scale_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    intercept_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    @property
    def title(self) -> str:  # type: ignore[override]
        """What to call it in a sentence."""
        return "a temperature and an offset for each class" if self.tied else "vector scaling"

    @property
    def stores(self) -> str:  # type: ignore[override]
        """What it stores."""
        return "K + 1 numbers" if self.tied else "2 K numbers"

    def _check_options(self) -> None:
        check_strength("ridge", self.ridge)
        check_prior(self.prior)
        if self.prior and not self.tied:
            raise ValueError("prior is for tied=True; leave it at 0 without.")

    def _check_fitted(self) -> None:
        check_linear(self, scale_=1, intercept_=1)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        ts = fit_temperature(logits, y, weight=weight)
        n_classes = logits.shape[1]
        center = np.repeat([[1 / ts.temperature], [0.0]], n_classes, axis=1)
        strength = self.ridge * n_classes / total_weight(y, weight)
        if self.tied:
            soft = soft_weight_of(logits, y, weight, self.prior)
            free = DiagonalSoftmax(raw_logits, logits, y, weight, 0.0 * center, center)
            fit = minimize_tied(free, 1 / ts.temperature, strength, soft, 1 / DEFAULT_BOUNDS[1])
            self.scale_, self.intercept_ = fit.theta
            return fit.summary(ts)
        ridge = np.full_like(center, strength)
        origin = origin_of(logits)
        objective = DiagonalSoftmax(raw_logits, logits, y, weight, ridge, center, origin)
        fit = objective.minimize(center)
        self.scale_, self.intercept_ = fit.theta
        return fit.summary(ts)

    def _bind(self, rows: Rows) -> Bound:
        theta = np.stack([self.scale_, self.intercept_])
        return bound_linear(rows.logits, raw_logits, diagonal_scores, theta)
