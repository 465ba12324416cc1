"""Structured vector and matrix scaling: penalized corrections of temperature scaling.

Berta, Holzmüller, Jordan and Bach, "Structured matrix scaling for multi-class calibration", AISTATS
2026, as in the package probmetrics from version 1.1 on.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import array_api_compat.numpy as np_compat

from wildcal.calibrators._softmax_regression import (
    RegressionFit,
    check_penalty,
    diagonal_penalty,
    fit_softmax_regression,
    matrix_penalty,
)
from wildcal.calibrators.temperature import TemperatureFit, fit_temperature
from wildcal.calibrators.temperature_mix import mixed_softmax, uniform_part
from wildcal.core.arrays import Array, FloatArray, in_blocks, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.validation import Samples


def log_mixed_proba(xp: Any, z: Array, temperature: float, uniform: float) -> Array:
    """Return log((1 - uniform) softmax(z / T) + uniform / K)."""
    return xp.log(mixed_softmax(xp, z, temperature, uniform))


@dataclass(kw_only=True, eq=False, repr=False)
class StructuredVectorScaling(Calibrator):
    """p = softmax(v * log q + b), q from `TemperatureMix`.

    v and b minimize the cross-entropy plus ``ridge K / N (|v - 1|^2 + |b|^2)``.

    Parameters
    ----------
    ridge
        Strength of the penalty, which pulls to temperature scaling.

    Attributes
    ----------
    temperature_, uniform_
        Of q = (1 - e) softmax(z / T) + e / K.
    scale_, intercept_
        v and b, shape (n_classes,).

    Notes
    -----
    log q is bounded, and adding a constant to all logits of a sample changes nothing.

    References
    ----------
    Berta et al., Structured matrix scaling for multi-class calibration, AISTATS 2026 ("svs").

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> calibrator = StructuredVectorScaling().fit(*suite.test)
    >>> bool(abs(calibrator.scale_ - 1).max() < 0.2)  # these classes are all alike
    True
    """

    name = "svs"
    title = "structured vector scaling"
    reference = "Berta et al., AISTATS 2026"

    ridge: float = 1.0
    temperature_: float = field(init=False)
    uniform_: float = field(init=False)
    scale_: FloatArray = field(init=False)
    intercept_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_penalty(ridge=self.ridge)

    def _fit(self, data: Samples) -> FitInfo:
        ts = fit_temperature(data)
        self.temperature_, self.uniform_ = ts.temperature, uniform_part(data)
        strength = self.ridge * data.n_classes / data.weight.sum()
        fit = _fit_on_mix(data, ts, *diagonal_penalty(data.n_classes, strength, 1.0))
        self.scale_, self.intercept_ = fit.scale, fit.intercept
        return fit.info(ts)

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(v * log q + b)."""
        x = log_mixed_proba(xp, z, self.temperature_, self.uniform_)
        return softmax(xp, x * self.scale_ + self.intercept_)


@dataclass(kw_only=True, eq=False, repr=False)
class StructuredMatrixScaling(Calibrator):
    """p = softmax(W log q + b), q from `TemperatureMix`.

    W and b minimize the cross-entropy plus
    ``ridge K / N (|diag(W) - 1|^2 + |b|^2 + (K - 1) sum_{i != j} W_ij^2)``.

    Parameters
    ----------
    ridge
        Strength of the penalty, which pulls to temperature scaling.

    Attributes
    ----------
    temperature_, uniform_
        Of q = (1 - e) softmax(z / T) + e / K.
    matrix_, intercept_
        W, shape (n_classes, n_classes), and b, shape (n_classes,).

    References
    ----------
    Berta et al., Structured matrix scaling for multi-class calibration, AISTATS 2026 ("sms").

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> StructuredMatrixScaling().fit(*suite.test).matrix_.shape
    (10, 10)
    """

    name = "sms"
    title = "structured matrix scaling"
    reference = "Berta et al., AISTATS 2026"

    ridge: float = 1.0
    temperature_: float = field(init=False)
    uniform_: float = field(init=False)
    matrix_: FloatArray = field(init=False)
    intercept_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_penalty(ridge=self.ridge)

    def _fit(self, data: Samples) -> FitInfo:
        ts = fit_temperature(data)
        self.temperature_, self.uniform_ = ts.temperature, uniform_part(data)
        k = data.n_classes
        strength = self.ridge * k / data.weight.sum()
        penalty, center = matrix_penalty(k, strength * (k - 1), strength, strength, 1.0)
        fit = _fit_on_mix(data, ts, penalty, center)
        self.matrix_, self.intercept_ = fit.matrix, fit.intercept
        return fit.info(ts)

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(W log q + b)."""
        x = log_mixed_proba(xp, z, self.temperature_, self.uniform_)
        return softmax(xp, x @ self.matrix_.T + self.intercept_)


def _fit_on_mix(
    data: Samples, ts: TemperatureFit, penalty: FloatArray, center: FloatArray
) -> RegressionFit:
    features = partial(
        log_mixed_proba, np_compat, temperature=ts.temperature, uniform=uniform_part(data)
    )
    return fit_softmax_regression(in_blocks(features, data.logits), data, penalty, center)
