"""IROvA and IROvATS: one isotonic regression for each class (Zadrozny and Elkan, 2002)."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from wildcal.calibrators._isotonic import fit_isotonic, normalized
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, Bounds, fit_temperature
from wildcal.core.arrays import Array, FloatArray, in_blocks, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.piecewise import interpolate, slopes, stack
from wildcal.core.validation import Samples, absent_class_warnings, check_choice


@dataclass(kw_only=True, eq=False, repr=False)
class IsotonicOneVsRest(Calibrator):
    """p_k = f_k(softmax(z / T)_k) / sum, with a non-decreasing f_k for each class.

    f_k is the isotonic regression of 1[y = k] on softmax(z / T)_k, linear between its thresholds
    and constant outside. A class without calibration samples has f_k = 0. A sample with f_k = 0 for
    all classes gets the uniform distribution.

    Parameters
    ----------
    temperature
        False (default): T = 1, the method IROvA. True: the T that minimizes the squared error of
        softmax(z / T), the method IROvATS.
    bounds
        Range of T.

    Attributes
    ----------
    temperature_
        T, 1.0 without temperature scaling.
    knots_, values_, slopes_
        Shape (n_classes, m): thresholds of each f_k, the value at each and the slope to the right
        of it, padded with infinite knots.

    Notes
    -----
    Each f_k is fitted to the few samples of its class: with many classes the method overfits, and
    the predicted class may change. As published by Zhang et al., 1e-9 softmax(z / T) is added.

    References
    ----------
    Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability
    estimates, KDD 2002. IROvATS: Zhang et al., Mix-n-match, ICML 2020, without normalization.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 80)
    >>> y = np.repeat([0, 0, 0, 1], 20)  # 75 % are classified correctly
    >>> IsotonicOneVsRest().fit(logits, y).predict_proba(logits[:1]).round(6)
    array([[0.75, 0.25]])
    """

    temperature: bool = False
    bounds: Bounds = DEFAULT_BOUNDS
    temperature_: float = field(init=False)
    knots_: FloatArray = field(init=False)
    values_: FloatArray = field(init=False)
    slopes_: FloatArray = field(init=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The registered short name."""
        return "irovats" if self.temperature else "irova"

    @property
    def title(self) -> str:  # type: ignore[override]
        """A phrase for tables."""
        first = "temperature scaling, then " if self.temperature else ""
        return f"{first}isotonic regression of each class"

    @property
    def reference(self) -> str:  # type: ignore[override]
        """The paper."""
        return "Zhang et al., ICML 2020" if self.temperature else "Zadrozny and Elkan, KDD 2002"

    def _check_options(self) -> None:
        check_choice("temperature", self.temperature, (False, True))

    def _fit(self, data: Samples) -> FitInfo:
        self.temperature_, info = 1.0, FitInfo("mse")
        if self.temperature:
            ts = fit_temperature(data, loss="mse", bounds=self.bounds)
            self.temperature_ = ts.temperature
            info = replace(ts.info, loss_before=math.nan, loss_after=math.nan)
        p = in_blocks(partial(softmax, np, temperature=self.temperature_), data.logits)
        tables: list[tuple[FloatArray, ...]] = []
        for k, column in enumerate(np.ascontiguousarray(p.T)):
            knots, values = fit_isotonic(column, data.y == k, data.weight)
            tables.append((knots, values, slopes(knots, values)))
        self.knots_, self.values_, self.slopes_ = stack(tables)
        return replace(info, warnings=(*info.warnings, *absent_class_warnings(data)))

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return f_k(softmax(z / T)_k), normalized."""
        p = softmax(xp, z, self.temperature_ if self.temperature else None)
        return normalized(xp, interpolate(xp, p, self.knots_, self.values_, self.slopes_), p)

    def _frequency_warnings(self, samples: Samples) -> list[str]:
        return []  # the mean of f_k over the calibration samples is the frequency of class k
