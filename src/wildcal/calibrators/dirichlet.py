"""Dirichlet calibration: multinomial logistic regression on log probabilities."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import numpy as np

from wildcal.calibrators.linear_map import (
    bound_linear,
    check_linear,
    check_penalty,
    log_proba,
    matrix_scores,
    stack_matrix,
    total_weight,
)
from wildcal.calibrators.linear_softmax import FullSoftmax, Penalty, check_memory
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.arrays import FloatArray
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.checks import check_choice
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, REAL, TEXT, optional, stored

Regularizer: TypeAlias = Literal["odir", "l2"]
Gauge: TypeAlias = Literal["free", "last"]
REGULARIZERS: tuple[Regularizer, ...] = ("odir", "l2")
GAUGES: tuple[Gauge, ...] = ("free", "last")


@final
@dataclass(kw_only=True, eq=False)
class DirichletCalibration(Calibrator):
    """p = softmax(W log q + b) with q = softmax(z).

    The map that calibrates a network whose probability vectors are Dirichlet distributed within
    each class. W and b minimize the cross-entropy plus ``lambda sum_{i != j} W_ij² + mu |b|²``.

    Parameters
    ----------
    reg_lambda
        lambda, the weight of the off-diagonal entries; None chooses K (K - 1) / N.
    reg_mu
        mu, the weight of the intercepts; None chooses K / N.
    regularizer
        "odir": the penalty above. "l2": lambda on every entry of W, and mu on b.
    gauge
        Adding the same row to all rows of W changes no probability. "free" leaves that choice to
        the penalty, as the paper's formula does, and treats all classes alike. "last" fixes the
        last row (and the last intercept) at zero before the penalty is taken, as the published
        code does; the result then depends on which class is last.
    ridge
        With "odir", the diagonal is pulled towards temperature scaling with the weight
        ridge K / N; at 0 it is free, as published, and may run to infinity.

    Notes
    -----
    Kull et al., Beyond temperature scaling, NeurIPS 2019. The published code tries many lambda and
    mu by cross-validation and divides them by K (K - 1) and K; here they multiply the sums as they
    stand, and the default grows with the number of parameters per row of data. Probabilities
    are floored at 1.2e-38, in every precision.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 3.0]] * 50)
    >>> y = np.array([0, 0, 1, 0] * 50)  # class 0 is always found, half of class 1 is not there
    >>> DirichletCalibration(reg_lambda=0, reg_mu=0).fit(logits, y).predict_proba(
    ...     logits[2:3]
    ... ).round(2)
    array([[0.5, 0.5]])
    """

    name = "dirichlet"
    title = "Dirichlet calibration"
    reference = "Kull et al., NeurIPS 2019"
    stores = "K (K + 1) numbers"
    preserves_accuracy = False
    shift_invariant = True
    state = "flat"

    reg_lambda: float | None = field(default=None, metadata=stored(optional(REAL)))
    reg_mu: float | None = field(default=None, metadata=stored(optional(REAL)))
    regularizer: Regularizer = field(default="odir", metadata=stored(TEXT))
    gauge: Gauge = field(default="free", metadata=stored(TEXT))
    ridge: float = field(default=0.1, metadata=stored(REAL))
    matrix_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    intercept_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_options(self) -> None:
        check_penalty(self.reg_lambda, self.reg_mu, self.ridge)
        check_choice("regularizer", self.regularizer, REGULARIZERS)
        check_choice("gauge", self.gauge, GAUGES)

    def _check_fitted(self) -> None:
        check_linear(self, matrix_=2, intercept_=1)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        check_memory(logits.shape[1])
        ts = fit_temperature(logits, y, weight=weight)
        n_classes, n = logits.shape[1], total_weight(y, weight)
        penalty = Penalty.structured(n_classes, n, self.reg_lambda, self.ridge, self.reg_mu)
        ridge, center = penalty.arrays(n_classes, diagonal=1 / ts.temperature)
        start, fixed = center, None
        if self.regularizer == "l2":
            ridge[:-1], center = penalty.off_diagonal, np.zeros_like(center)
        if self.gauge == "last":
            fixed = np.zeros(start.shape, bool)
            fixed[:, -1] = True
            start = start - start[:, -1:]
            ridge[:, -1] = 0
        fit = FullSoftmax(log_proba, logits, y, weight, ridge, center).minimize(start, fixed)
        self.matrix_, self.intercept_ = fit.theta[:-1].T.copy(), fit.theta[-1].copy()
        return fit.summary(ts)

    def _bind(self, rows: Rows) -> Bound:
        theta = stack_matrix(self.matrix_, self.intercept_)
        return bound_linear(rows.logits, log_proba, matrix_scores, theta)
