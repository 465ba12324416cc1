"""Confidence matching: the temperature at which mean confidence is an estimated accuracy."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from array_api_compat import is_dask_array
from scipy.optimize import brentq

from wildcal.accuracy.base import AccuracyEstimator
from wildcal.accuracy.threshold import ATC
from wildcal.core.arrays import Array, FloatArray, softmax
from wildcal.core.calibrator import FitInfo, fit_base
from wildcal.core.exceptions import InputError
from wildcal.core.validation import Samples, warn
from wildcal.window.base import WindowCalibrator

# Range of log T.
_LOG_RANGE: Final = (-4.0, 5.0)
# A mean confidence lies above 1 / K and below 1.
_ABOVE_CHANCE: Final = 1e-3
_LARGEST: Final = 0.9999


@dataclass(kw_only=True, eq=False, repr=False)
class ConfidenceMatching(WindowCalibrator):
    """p = softmax(u / T), with T such that the mean confidence of the window is its accuracy.

    u are log-probabilities of the base; the accuracy is estimated without labels. The predicted
    class is that of the base.

    Parameters
    ----------
    base
        A calibrator. An unfitted one is fitted on source samples. Default: temperature scaling.
    estimator
        An accuracy estimator, such as `ATC()` or `COT()`. An unfitted one is fitted. Its
        assumptions about windows hold here as well. Default: `ATC()`.
    min_window
        Smaller windows get the base. Windows that are too small for the estimator give a warning.

    Attributes
    ----------
    base_, estimator_
        The fitted base and estimator.

    References
    ----------
    The objective is that of TransCal: Wang et al., Transferable calibration with lower bias and
    variance in domain adaptation, NeurIPS 2020.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 4))
    >>> y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> calibrator = ConfidenceMatching().fit(logits, y)
    >>> window = logits / 2
    >>> confidence = calibrator.adapt(window).confidence(window)
    >>> bool(np.isclose(confidence.mean(), calibrator.estimator_.estimate(window).value))
    True
    """

    title = "confidence matching"
    reference = "after Wang et al., NeurIPS 2020"

    estimator: AccuracyEstimator | None = None
    estimator_: AccuracyEstimator = field(init=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The registered short name."""
        return "match" if self.estimator is None else f"match+{self.estimator.name}"

    def _check_options(self) -> None:
        super()._check_options()
        if self.estimator is not None and self.estimator.requires_second_logits:
            raise InputError(
                f"estimator must need one network, got {self.estimator!r}. Try ATC().", "estimator"
            )

    def _fit(self, data: Samples) -> FitInfo:
        self.base_ = fit_base(self._inner(), data, self.input_)
        self.estimator_ = self.estimator or ATC()
        if not self.estimator_.is_fitted:
            self.estimator_ = replace(self.estimator_).fit_samples(data, input=self.input_)
        elif (self.estimator_.n_classes_, self.estimator_.input_) != (data.n_classes, self.input_):
            raise InputError(
                f"estimator must be fitted for {data.n_classes} classes and input={self.input_!r},"
                f" got {self.estimator_.n_classes_} and {self.estimator_.input_!r}.",
                "estimator",
            )
        return self.base_.fit_info_

    def _adjustment_to(self, X: Any, knn_distances: Any) -> float:
        p = self._unadjusted_proba(X, knn_distances)
        if len(p) < self.min_window:
            return self.no_adjustment
        least = self.estimator_.min_window
        if len(p) < least:
            warn(
                f"ConfidenceMatching: {self.estimator_.name} needs windows of at least {least}"
                f" samples, got {len(p)}. Try a larger window, or min_window={least}.",
                level=4,
            )
        column = 1 if self.input_ == "confidence" else None
        window = X.compute() if is_dask_array(X) else X
        accuracy = self.estimator_.estimate(window).value
        return matched_log_temperature(np.log(np.maximum(p, 1e-30)), accuracy, column)

    def adapted_formula(self, xp: Any, z: Array, adjustment: Any, *inputs: Array) -> Array:
        """Return softmax(u / T)."""
        u = self._log_proba(xp, z, *inputs)
        return softmax(xp, u, xp.exp(xp.zeros_like(u[:, :1]) + adjustment))


def matched_log_temperature(u: FloatArray, accuracy: float, column: int | None = None) -> float:
    """Return log T such that the mean of max softmax(u / T), or of a column, is an accuracy.

    >>> round(matched_log_temperature(np.array([[2.0, 0.0], [0.0, 2.0]]), 0.75), 6)  # 2 / log(3)
    0.599099
    """
    wanted = float(np.clip(accuracy, 1 / u.shape[1] + _ABOVE_CHANCE, _LARGEST))

    def gap(log_t: float) -> float:
        p = softmax(np, u, np.exp(log_t))
        return float(np.mean(p.max(axis=1) if column is None else p[:, column])) - wanted

    low, high = _LOG_RANGE
    if gap(low) <= 0 or gap(high) >= 0:  # nearly equal logits, or a few identical samples
        warn(
            f"ConfidenceMatching: no temperature gives a mean confidence of {wanted:.4g}, the"
            " estimated accuracy; the window gets the base.",
            level=6,
        )
        return 0.0
    root: float = brentq(gap, low, high, xtol=1e-10)
    return root
