"""Methods that weigh the clean rows as if they were drawn from the window: CPCS and TransCal."""

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from wildcal.calibrators.temperature import DEFAULT_BOUNDS, fit_temperature
from wildcal.core.arrays import FloatArray, Labels, Logits, working_dtype
from wildcal.core.calibrator import FitSummary
from wildcal.core.checks import check_temperature
from wildcal.core.rows import Rows
from wildcal.core.softmax import predicted_class
from wildcal.core.stored import ARRAY, REAL, stored
from wildcal.window.clean import scaled, summary
from wildcal.window.domain import Source, density_ratio, finite
from wildcal.window.matching import mean_confidence_at
from wildcal.window.reader import Told, WindowTemperature

_START: Final = (2.0, 0.5)
"""T and λ where the authors' search starts."""
_MATCHED: Final = 0.01
"""A search that ends further from its aim got stuck: it goes by slopes, and where all confidences
are 1 there are none."""
_TOO_SURE: Final = (
    f"the window is so sure that no temperature up to {DEFAULT_BOUNDS[1]:g} brings its mean"
    f" confidence to the estimated accuracy, or below 0.99; logits are divided by"
    f" {DEFAULT_BOUNDS[1]:g}. Divide them by a constant first, for the fit too."
)


@dataclass(kw_only=True, eq=False)
class _Weighted(WindowTemperature):
    """Keeps the labeled rows, whose weights depend on the window."""

    stores = "the tuning rows"

    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    logits_: Logits = field(init=False, repr=False, metadata=stored(ARRAY))
    y_: Labels = field(init=False, repr=False, metadata=stored(ARRAY))
    weight_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)
        n = len(self.y_)
        if self.logits_.shape != (n, self.n_classes_) or self.weight_.shape != (n,) or not n:
            raise ValueError("logits, labels and weights must be of as many rows")
        if self.y_.dtype != np.int64 or not ((self.y_ >= 0) & (self.y_ < self.n_classes_)).all():
            raise ValueError("labels must be classes")
        if not ((self.weight_ >= 0).all() and self.weight_.sum() > 0):
            raise ValueError("weights must not be negative, and some must be positive")

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        fit = scaled(rows)
        self.temperature_ = fit.temperature
        self.logits_ = finite(logits.astype(working_dtype(logits.dtype)))
        self.y_ = y.astype(np.int64)
        self.weight_ = np.ones(len(y)) if weight is None else weight.astype(np.float64)
        return summary(rows, fit)

    def _ratio(self, window: Logits) -> FloatArray:
        return density_ratio(Source(self.logits_, self.y_, self.weight_), window)

    def _describe(self) -> list[str]:
        return [
            f"{len(self.y_):,} labeled rows are weighted anew for each window; a row without a"
            f" window is divided by {self.temperature_:.4g}."
        ]


@final
@dataclass(kw_only=True, eq=False)
class WeightedScaling(_Weighted):
    """p = softmax(z / T), T the minimum of Σ w ‖p - onehot(y)‖² over clean rows.

    w = P(window | z) / P(clean | z), by a logistic regression on the centered logits, standardized,
    with penalty |v|² / 2. Corrupted rows are easily told from clean ones, and then few clean rows
    have all the weight.

    Notes
    -----
    CPCS: Park et al., Calibrated prediction with covariate shift via unsupervised domain
    adaptation, AISTATS 2020, as later work re-implements it. The paper's classifier reads features
    that it aligned in training; this one reads logits. Where public code draws the smaller of the
    two sets anew to the size of the larger, its rows have the weight of that here.
    """

    name = "cpcs"
    title = "temperature scaling by importance weights, on logits (CPCS)"
    reference = "Park et al., AISTATS 2020"

    def _read(self, logits: Logits) -> Told:
        weight = self._ratio(logits) * self.weight_
        fit = fit_temperature(
            self.logits_, self.y_, weight=weight / weight.mean(), loss="mse", bounds=DEFAULT_BOUNDS
        )
        return Told(np.array([fit.temperature]))


@final
@dataclass(kw_only=True, eq=False)
class TransferableScaling(_Weighted):
    """p = softmax(z / T), mean confidence of the window = its estimated accuracy, T >= 1.

    The accuracy is that of the clean rows with weights w^λ, less two control variates: E = w^λ x
    error, η₁ = -cov(E, w^λ) / var(w^λ), V = E + η₁ (w^λ - 1), η₂ = -cov(V, right) / var(right),
    error = mean E + η₁ (mean w^λ - 1) + η₂ (mean right - mean confidence at the clean T). w as in
    `cpcs`, on logits.

    Notes
    -----
    Wang et al., Transferable calibration with lower bias and variance in domain adaptation, NeurIPS
    2020. T and λ in [0, 1] are two unknowns of one equation: the answer depends on where the search
    starts, here as in the authors' script from T = 2, λ = 1/2 by SLSQP. Where that search ends more
    than a point from its aim, T solves the equation for the λ it ended at. T is at least 1, so
    under-confidence is not mended. A control variate without variance counts nothing.
    """

    name = "transcal"
    title = "transferable calibration, on logits"
    reference = "Wang et al., NeurIPS 2020"

    def _read(self, logits: Logits) -> Told:
        from scipy.optimize import brentq, minimize  # slow to import

        ratio = self._ratio(logits)
        logits = logits.astype(np.float64)  # the search takes steps that float32 does not see
        share = self.weight_ / self.weight_.sum()
        right = (predicted_class(self.logits_) == self.y_).astype(np.float64)
        clean = mean_confidence_of(self.logits_, share, self.temperature_)

        def above(at: FloatArray) -> float:
            accuracy = controlled_accuracy(ratio ** at[1], right, share, clean)
            return mean_confidence_at(logits, float(max(1.0, at[0]))) - accuracy

        most = DEFAULT_BOUNDS[1]
        if mean_confidence_at(logits, most) > 1 - _MATCHED:
            return Told(np.array([most]), (_TOO_SURE,))
        box = ((1.0, most), (0.0, 1.0))
        found = minimize(lambda at: abs(above(at)), _START, method="SLSQP", bounds=box)
        temperature, power = (float(np.clip(x, *b)) for x, b in zip(found.x, box, strict=True))
        if abs(above(np.array([temperature, power]))) <= _MATCHED:
            return Told(np.array([temperature]))
        if above(np.array([most, power])) > 0:
            far = above(np.array([most, power])) > _MATCHED
            return Told(np.array([most]), (_TOO_SURE,) if far else ())
        if above(np.array([1.0, power])) <= 0:
            return Told(np.array([1.0]))
        temperature = brentq(lambda t: above(np.array([t, power])), 1.0, most, xtol=1e-8)
        return Told(np.array([temperature]))


def mean_confidence_of(logits: Logits, share: FloatArray, temperature: float) -> float:
    """Return the weighted mean confidence of some rows."""
    z = logits.astype(np.float64)
    p = np.exp((z - z.max(axis=1, keepdims=True)) / temperature)
    return float(share @ (1 / p.sum(axis=1)))


def controlled_accuracy(
    weight: FloatArray, right: FloatArray, share: FloatArray, clean_confidence: float
) -> float:
    """Return the accuracy of weighted rows with both control variates of TransCal.

    >>> right, share = np.array([1.0, 1.0, 0.0, 1.0]), np.full(4, 0.25)
    >>> controlled_accuracy(np.ones(4), right, share, 0.75)  # no weights: the plain accuracy
    0.75
    """
    error = weight * (1 - right)
    first = _slope(error, weight, share)
    varied = error + first * (weight - 1)
    second = _slope(varied, right, share)
    risk = (
        share @ error + first * (share @ weight - 1) + second * (share @ right - clean_confidence)
    )
    return float(1 - risk)


def _slope(values: FloatArray, control: FloatArray, share: FloatArray) -> float:
    """Return -cov(values, control) / var(control)."""
    centered = control - share @ control
    variance = float(share @ centered**2)
    return -float(share @ (centered * values)) / variance if variance > 1e-12 else 0.0
