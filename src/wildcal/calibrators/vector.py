"""Vector scaling: a factor and an offset for the logit of each class (Guo et al., 2017)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wildcal.calibrators._softmax_regression import (
    check_penalty,
    diagonal_penalty,
    fit_softmax_regression,
    logit_features,
    logit_floor,
)
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.arrays import LOG_TINY, Array, FloatArray, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.validation import Samples, check_choice


@dataclass(kw_only=True, eq=False, repr=False)
class VectorScaling(Calibrator):
    """p = softmax(v * z + b), one v and one b per class.

    v and b minimize the cross-entropy plus ``ridge K / N (|v - 1/T|^2 + |b|^2)``, where T is the
    temperature of temperature scaling, K the number of classes and N the number of samples.

    Parameters
    ----------
    ridge
        Strength of the penalty. At 0 this is the published method, whose minimum may lie at
        infinity.
    tied
        One factor for all classes, which has no penalty: p = softmax(z / T + b), bias-corrected
        temperature scaling.

    Attributes
    ----------
    scale_, intercept_
        v and b, shape (n_classes,).
    floor_
        Logits further below the largest one of a sample are raised to it: -87 max(T, 1), where the
        probabilities of softmax(z / T) end in float32.

    Notes
    -----
    The penalty is not part of the published method. A class with few samples determines neither of
    its two numbers; the penalty keeps them near temperature scaling. Adding a constant to all
    logits of a sample changes the result, since v differs between classes.

    References
    ----------
    Guo et al., On calibration of modern neural networks, ICML 2017, section 4.2. Tied: Alexandari
    et al., Maximum likelihood with bias-corrected calibration, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(20_000, 3))
    >>> scores = z * [1.0, 2.0, 0.5] + [0.0, 1.0, 0.0]
    >>> y = (scores + rng.gumbel(size=z.shape)).argmax(axis=1)  # drawn from softmax(scores)
    >>> VectorScaling().fit(z, y).scale_.round(1)
    array([1. , 2. , 0.5])
    """

    name = "vector"
    title = "vector scaling"
    reference = "Guo et al., ICML 2017"

    ridge: float = 0.1
    tied: bool = False
    scale_: FloatArray = field(init=False)
    intercept_: FloatArray = field(init=False)
    floor_: float = field(init=False, default=LOG_TINY)

    def _check_options(self) -> None:
        check_penalty(ridge=self.ridge)
        check_choice("tied", self.tied, (False, True))

    def _fit(self, data: Samples) -> FitInfo:
        ts = fit_temperature(data)
        self.floor_ = logit_floor(ts.temperature)
        penalty, center = diagonal_penalty(data, self.ridge, 1 / ts.temperature)
        x = logit_features(np, data.logits, self.floor_)
        if self.tied:
            penalty[:, 0] = 0.0
            x = x - x.max(axis=1, keepdims=True)
        self.scale_, self.intercept_, info = fit_softmax_regression(
            x, data, penalty, center, ts, tied=self.tied
        )
        return info

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(v * z + b)."""
        return softmax(xp, logit_features(xp, z, self.floor_) * self.scale_ + self.intercept_)
