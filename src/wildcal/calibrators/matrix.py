"""Matrix scaling: every calibrated score may use every logit."""

from dataclasses import dataclass, field
from typing import final

from wildcal.calibrators.linear_map import (
    bound_linear,
    check_linear,
    check_penalty,
    matrix_scores,
    origin_of,
    raw_logits,
    stack_matrix,
    total_weight,
)
from wildcal.calibrators.linear_softmax import FullSoftmax, Penalty, check_memory
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.arrays import FloatArray
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, REAL, optional, stored


@final
@dataclass(kw_only=True, eq=False)
class MatrixScaling(Calibrator):
    """p = softmax(W z + b) with a full K x K matrix.

    W and b minimize the cross-entropy plus an off-diagonal and intercept penalty (ODIR),
    ``lambda sum_{i != j} W_ij² + mu |b|²``.

    Parameters
    ----------
    reg_lambda
        Weight of the off-diagonal entries; None chooses K (K - 1) / N.
    reg_mu
        Weight of the intercepts; None chooses K / N.
    ridge
        Strength of a small pull of the diagonal towards temperature scaling, as in
        `VectorScaling`, without which the minimum may lie at infinity.

    Notes
    -----
    Guo et al., ICML 2017, section 4.2; the penalty is that of Kull et al., NeurIPS 2019, without
    which K² numbers fit the noise of any held-out set when there are many classes. With K = 1000
    there are a million of them: the search may then stop early, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> mix = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> z = 2 * rng.normal(size=(20_000, 3))
    >>> y = (z @ mix.T + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> matrix = MatrixScaling().fit(z, y).matrix_
    >>> (matrix[0] - matrix[2]).round(1)  # only differences of rows matter
    array([ 1. ,  0.5, -1. ])
    """

    name = "matrix"
    title = "matrix scaling"
    reference = "Guo et al., ICML 2017"
    stores = "K (K + 1) numbers"
    preserves_accuracy = False
    shift_invariant = False
    state = "flat"

    reg_lambda: float | None = field(default=None, metadata=stored(optional(REAL)))
    reg_mu: float | None = field(default=None, metadata=stored(optional(REAL)))
    ridge: float = field(default=0.1, metadata=stored(REAL))
    matrix_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    intercept_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_options(self) -> None:
        check_penalty(self.reg_lambda, self.reg_mu, self.ridge)

    def _check_fitted(self) -> None:
        check_linear(self, matrix_=2, intercept_=1)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        check_memory(logits.shape[1])
        ts = fit_temperature(logits, y, weight=weight)
        n_classes, n = logits.shape[1], total_weight(y, weight)
        penalty = Penalty.structured(n_classes, n, self.reg_lambda, self.ridge, self.reg_mu)
        ridge, center = penalty.arrays(n_classes, diagonal=1 / ts.temperature)
        origin = origin_of(logits)
        fit = FullSoftmax(raw_logits, logits, y, weight, ridge, center, origin).minimize(center)
        self.matrix_, self.intercept_ = fit.theta[:-1].T.copy(), fit.theta[-1].copy()
        return fit.summary(ts)

    def _bind(self, rows: Rows) -> Bound:
        theta = stack_matrix(self.matrix_, self.intercept_)
        return bound_linear(rows.logits, raw_logits, matrix_scores, theta)
