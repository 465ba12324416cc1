"""Dirichlet calibration: logistic regression on log-probabilities (Kull et al., 2019)."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from wildcal.calibrators._softmax_regression import (
    check_penalty,
    fit_softmax_regression,
    matrix_penalty,
)
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.arrays import LOG_TINY, Array, FloatArray, clip, in_blocks, log_softmax, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.validation import Samples, check_choice


def log_proba(xp: Any, z: Array) -> Array:
    """Return log softmax(z), at least the logarithm of the smallest normal float32."""
    return clip(xp, log_softmax(xp, z), LOG_TINY, None)


@dataclass(kw_only=True, eq=False, repr=False)
class DirichletCalibration(Calibrator):
    """p = softmax(W log q + b) with q = softmax(z).

    The map that calibrates a classifier whose probability vectors are Dirichlet distributed within
    each class. W and b minimize the cross-entropy plus ``lambda sum_{i != j} W_ij^2 + mu |b|^2``.

    Parameters
    ----------
    reg_lambda
        lambda, the weight of off-diagonal entries; None is K (K - 1) / N.
    reg_mu
        mu, the weight of intercepts; None is K / N.
    regularizer
        "odir": the penalty above. "l2": lambda on every entry of W, and mu on b.
    gauge
        Adding one row to all rows of W changes no probability. "free" leaves that choice to the
        penalty, as in the paper's formula. "last" fixes the last row of W and the last intercept at
        zero before the penalty is computed, as the published code does; the result then depends on
        which class is last.
    ridge
        With "odir", ``ridge K / N |diag(W) - 1/T|^2`` is added, T from temperature scaling. At 0
        the diagonal is free, as published, and may grow to infinity.

    Attributes
    ----------
    matrix_, intercept_
        W, shape (n_classes, n_classes), and b, shape (n_classes,).

    Notes
    -----
    The published code chooses lambda and mu by cross-validation and divides them by K (K - 1) and
    K; here they multiply the sums.

    References
    ----------
    Kull et al., Beyond temperature scaling: obtaining well-calibrated multiclass probabilities with
    Dirichlet calibration, NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 3.0]] * 50)
    >>> y = np.array([0, 0, 1, 0] * 50)  # predictions of class 1 are correct half of the time
    >>> calibrator = DirichletCalibration(reg_lambda=0, reg_mu=0).fit(logits, y)
    >>> calibrator.predict_proba(logits[2:3]).round(2)
    array([[0.5, 0.5]])
    """

    name = "dirichlet"
    title = "Dirichlet calibration"
    reference = "Kull et al., NeurIPS 2019"

    reg_lambda: float | None = None
    reg_mu: float | None = None
    regularizer: Literal["odir", "l2"] = "odir"
    gauge: Literal["free", "last"] = "free"
    ridge: float = 0.1
    matrix_: FloatArray = field(init=False)
    intercept_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_penalty(reg_lambda=self.reg_lambda, reg_mu=self.reg_mu, ridge=self.ridge)
        check_choice("regularizer", self.regularizer, ("odir", "l2"))
        check_choice("gauge", self.gauge, ("free", "last"))

    def _fit(self, data: Samples) -> FitInfo:
        ts = fit_temperature(data)
        penalty, center = matrix_penalty(
            data, self.ridge, 1 / ts.temperature, self.reg_lambda, self.reg_mu
        )
        start, fixed = center, None
        if self.regularizer == "l2":
            penalty[:, :-1], center = penalty[0, 1], np.zeros_like(center)
        if self.gauge == "last":
            fixed = np.zeros(start.shape, dtype=bool)
            fixed[-1] = True
            start, penalty[-1] = start - start[-1], 0.0
        x = in_blocks(partial(log_proba, np), data.logits)
        self.matrix_, self.intercept_, info = fit_softmax_regression(
            x, data, penalty, center, ts, start=start, fixed=fixed
        )
        return info

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(W log softmax(z) + b)."""
        return softmax(xp, log_proba(xp, z) @ self.matrix_.T + self.intercept_)
