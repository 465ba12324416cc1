"""Matrix scaling: each calibrated score is a linear function of all logits (Guo et al., 2017)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wildcal.calibrators._softmax_regression import (
    check_penalty,
    fit_softmax_regression,
    logit_features,
    logit_floor,
    matrix_penalty,
)
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.arrays import LOG_TINY, Array, FloatArray, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.validation import Samples


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixScaling(Calibrator):
    """p = softmax(W z + b) with a full matrix W.

    W and b minimize the cross-entropy plus ``lambda sum_{i != j} W_ij^2 + mu |b|^2`` (off-diagonal
    and intercept regularization, ODIR) plus ``ridge K / N |diag(W) - 1/T|^2``.

    Parameters
    ----------
    reg_lambda
        lambda; None is K (K - 1) / N.
    reg_mu
        mu; None is K / N.
    ridge
        Strength of the penalty that pulls the diagonal to temperature scaling; without it the
        minimum may lie at infinity.

    Attributes
    ----------
    matrix_, intercept_
        W, shape (n_classes, n_classes), and b, shape (n_classes,).
    floor_
        Logits further below the largest one of a sample are raised to it: -87 max(T, 1), where the
        probabilities of softmax(z / T) end in float32.

    Notes
    -----
    The penalty is that of Dirichlet calibration.

    References
    ----------
    Guo et al., On calibration of modern neural networks, ICML 2017, section 4.2; Kull et al.,
    Beyond temperature scaling, NeurIPS 2019 (ODIR).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> W = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> z = 2 * rng.normal(size=(20_000, 3))
    >>> y = (z @ W.T + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> matrix = MatrixScaling().fit(z, y).matrix_
    >>> (matrix[0] - matrix[2]).round(1)  # only differences of rows are determined
    array([ 1. ,  0.5, -1. ])
    """

    name = "matrix"
    title = "matrix scaling"
    reference = "Guo et al., ICML 2017"

    reg_lambda: float | None = None
    reg_mu: float | None = None
    ridge: float = 0.1
    matrix_: FloatArray = field(init=False)
    intercept_: FloatArray = field(init=False)
    floor_: float = field(init=False, default=LOG_TINY)

    def _check_options(self) -> None:
        check_penalty(reg_lambda=self.reg_lambda, reg_mu=self.reg_mu, ridge=self.ridge)

    def _fit(self, data: Samples) -> FitInfo:
        ts = fit_temperature(data)
        self.floor_ = logit_floor(ts.temperature)
        penalty = matrix_penalty(data, self.ridge, 1 / ts.temperature, self.reg_lambda, self.reg_mu)
        x = logit_features(np, data.logits, self.floor_)
        self.matrix_, self.intercept_, info = fit_softmax_regression(x, data, *penalty, ts)
        return info

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(W z + b)."""
        return softmax(xp, logit_features(xp, z, self.floor_) @ self.matrix_.T + self.intercept_)
