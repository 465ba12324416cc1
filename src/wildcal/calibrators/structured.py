"""Structured vector and matrix scaling: penalized corrections of temperature scaling.

Berta, Holzmüller, Jordan and Bach, "Structured matrix scaling for multi-class calibration", AISTATS
2026, as in the package probmetrics from version 1.1 on.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from wildcal.calibrators._softmax_regression import (
    check_penalty,
    diagonal_penalty,
    fit_softmax_regression,
    matrix_penalty,
)
from wildcal.calibrators.temperature import fit_temperature
from wildcal.calibrators.temperature_mix import mixed_softmax, uniform_part
from wildcal.core.arrays import Array, FloatArray, in_blocks, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.validation import Samples


@dataclass(kw_only=True, eq=False, repr=False)
class _StructuredScaling(Calibrator):
    """A linear map of log q, q from `TemperatureMix`, with a penalty that pulls to log q."""

    reference = "Berta et al., AISTATS 2026"

    ridge: float = 1.0
    temperature_: float = field(init=False)
    uniform_: float = field(init=False)
    intercept_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_penalty(ridge=self.ridge)

    def _fit_map(
        self, data: Samples, penalty: FloatArray, center: FloatArray
    ) -> tuple[FloatArray, FitInfo]:
        """Set all but the slopes; return these and the record of the fit."""
        ts = fit_temperature(data)
        self.temperature_, self.uniform_ = ts.temperature, uniform_part(data)
        x = in_blocks(partial(self._log_mix, np), data.logits)
        slopes, self.intercept_, info = fit_softmax_regression(x, data, penalty, center, ts)
        return slopes, info

    def _log_mix(self, xp: Any, z: Array) -> Array:
        """Return log((1 - e) softmax(z / T) + e / K)."""
        return xp.log(mixed_softmax(xp, z, self.temperature_, self.uniform_))


@dataclass(kw_only=True, eq=False, repr=False)
class StructuredVectorScaling(_StructuredScaling):
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

    scale_: FloatArray = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        penalty, center = diagonal_penalty(data, self.ridge, 1.0)
        self.scale_, info = self._fit_map(data, penalty, center)
        return info

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(v * log q + b)."""
        return softmax(xp, self._log_mix(xp, z) * self.scale_ + self.intercept_)


@dataclass(kw_only=True, eq=False, repr=False)
class StructuredMatrixScaling(_StructuredScaling):
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

    matrix_: FloatArray = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        k, strength = data.n_classes, self.ridge * data.n_classes / float(data.weight.sum())
        penalty, center = matrix_penalty(data, self.ridge, 1.0, strength * (k - 1), strength)
        self.matrix_, info = self._fit_map(data, penalty, center)
        return info

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return softmax(W log q + b)."""
        return softmax(xp, self._log_mix(xp, z) @ self.matrix_.T + self.intercept_)
