"""Structured vector and matrix scaling: small corrections of temperature scaling."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal.calibrators.linear_map import (
    bound_linear,
    check_linear,
    check_strength,
    diagonal_scores,
    log_mixed_proba,
    matrix_scores,
    stack_matrix,
    total_weight,
)
from wildcal.calibrators.linear_softmax import DiagonalSoftmax, FullSoftmax, Penalty, check_memory
from wildcal.calibrators.temperature import fit_temperature
from wildcal.calibrators.temperature_mix import uniform_part
from wildcal.core.arrays import FloatArray, Logits, Proba
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.checks import check_temperature
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, REAL, stored


def _check_mixture(temperature: float, uniform: float) -> None:
    check_temperature("temperature_", temperature)
    if not 0 < uniform < 1:
        raise ValueError(f"uniform_ must lie between 0 and 1, got {uniform}.")


@final
@dataclass(kw_only=True, eq=False)
class StructuredVectorScaling(Calibrator):
    """p = softmax(v * log q + b), q from temperature scaling with a uniform part.

    v and b minimize the cross-entropy plus ``ridge K / N (|v - 1|² + |b|²)``: what the data
    do not insist on stays temperature scaling.

    Parameters
    ----------
    ridge
        Strength of the pull towards temperature scaling.

    Notes
    -----
    Berta, Holzmüller, Jordan, Bach, Structured matrix scaling for multi-class calibration,
    AISTATS 2026, as in the package probmetrics from version 1.1 on: q is `TemperatureMix`, so
    log q is bounded, and adding a constant to a row changes nothing. We reproduce its fits to the
    tolerance of its solver; ours is Newton's.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0, n_ood_tuning=0)
    >>> calibrator = StructuredVectorScaling().fit(*suite.tuning)
    >>> bool(abs(calibrator.scale_ - 1).max() < 0.2)  # these classes are all alike
    True
    """

    name = "svs"
    title = "structured vector scaling"
    reference = "Berta et al., AISTATS 2026"
    stores = "2 K + 2 numbers"
    preserves_accuracy = False
    shift_invariant = True
    state = "flat"

    ridge: float = field(default=1.0, metadata=stored(REAL))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    uniform_: float = field(init=False, repr=False, metadata=stored(REAL))
    scale_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    intercept_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_options(self) -> None:
        check_strength("ridge", self.ridge)

    def _check_fitted(self) -> None:
        _check_mixture(self.temperature_, self.uniform_)
        check_linear(self, scale_=1, intercept_=1)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        ts = fit_temperature(logits, y, weight=weight)
        self.temperature_, self.uniform_ = ts.temperature, uniform_part(len(y), weight)
        n_classes = logits.shape[1]
        center = np.repeat([[1.0], [0.0]], n_classes, axis=1)
        ridge = np.full_like(center, self.ridge * n_classes / total_weight(y, weight))
        fit = DiagonalSoftmax(self._features, logits, y, weight, ridge, center).minimize(center)
        self.scale_, self.intercept_ = fit.theta
        return fit.summary(ts)

    def _features(self, rows: Logits) -> Proba:
        return log_mixed_proba(rows, self.temperature_, self.uniform_)

    def _bind(self, rows: Rows) -> Bound:
        theta = np.stack([self.scale_, self.intercept_])
        return bound_linear(rows.logits, self._features, diagonal_scores, theta)


@final
@dataclass(kw_only=True, eq=False)
class StructuredMatrixScaling(Calibrator):
    """p = softmax(W log q + b), q from temperature scaling with a uniform part.

    W and b minimize the cross-entropy plus
    ``ridge K / N (|diag(W) - 1|² + |b|² + (K - 1) sum_{i != j} W_ij²)``.

    Parameters
    ----------
    ridge
        Strength of the pull towards temperature scaling.

    Notes
    -----
    See `StructuredVectorScaling`; this is "sms" of the same paper. With K = 1000 there are a
    million parameters, and the search may stop early, with a warning.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0, n_ood_tuning=0)
    >>> calibrator = StructuredMatrixScaling().fit(*suite.tuning)
    >>> calibrator.matrix_.shape
    (10, 10)
    """

    name = "sms"
    title = "structured matrix scaling"
    reference = "Berta et al., AISTATS 2026"
    stores = "K (K + 1) + 2 numbers"
    preserves_accuracy = False
    shift_invariant = True
    state = "flat"

    ridge: float = field(default=1.0, metadata=stored(REAL))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    uniform_: float = field(init=False, repr=False, metadata=stored(REAL))
    matrix_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    intercept_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_options(self) -> None:
        check_strength("ridge", self.ridge)

    def _check_fitted(self) -> None:
        _check_mixture(self.temperature_, self.uniform_)
        check_linear(self, matrix_=2, intercept_=1)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        check_memory(logits.shape[1])
        ts = fit_temperature(logits, y, weight=weight)
        self.temperature_, self.uniform_ = ts.temperature, uniform_part(len(y), weight)
        n_classes = logits.shape[1]
        share = self.ridge * n_classes / total_weight(y, weight)
        ridge, center = Penalty(share * (n_classes - 1), share, share).arrays(n_classes, 1.0)
        fit = FullSoftmax(self._features, logits, y, weight, ridge, center).minimize(center)
        self.matrix_, self.intercept_ = fit.theta[:-1].T.copy(), fit.theta[-1].copy()
        return fit.summary(ts)

    def _features(self, rows: Logits) -> Proba:
        return log_mixed_proba(rows, self.temperature_, self.uniform_)

    def _bind(self, rows: Rows) -> Bound:
        theta = stack_matrix(self.matrix_, self.intercept_)
        return bound_linear(rows.logits, self._features, matrix_scores, theta)
