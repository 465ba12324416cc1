"""Ensemble temperature scaling: mix the scaled, the raw and the uniform distribution."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal.calibrators.mixture_weights import (
    fit_weights_mse,
    fit_weights_nll,
    mixed_nll,
    overlaps,
)
from wildcal.calibrators.soft_rows import check_prior, soft_weight_of
from wildcal.calibrators.temperature import (
    BOUNDS,
    DEFAULT_BOUNDS,
    Bounds,
    as_bounds,
    bound_notes,
    fit_temperature,
)
from wildcal.core.arrays import FloatArray, Proba
from wildcal.core.block import Block
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.checks import check_bounds, check_choice, check_temperature
from wildcal.core.objective import LOSSES, Loss
from wildcal.core.rows import Rows
from wildcal.core.stored import REAL, TEXT, Row, stored


@final
@dataclass(kw_only=True, eq=False)
class EnsembleTemperatureScaling(Calibrator):
    """p = w0 softmax(z / T) + w1 softmax(z) + w2 / K, weights on the simplex.

    Parameters
    ----------
    loss
        What the weights minimize: "mse" (the published method) or "nll".
    temperature_loss
        What T minimizes, before the weights: "nll" (the paper's code) or "mse" (the code of
        Mix-n-Match).
    bounds
        Range of T.
    prior
        Strength of soft rows in the fit of T, as in `TemperatureScaling`.

    Notes
    -----
    Zhang, Kailkhura, Han, Mix-n-match, ICML 2020. The published code finds the
    weights with a general solver; here the squared error is solved exactly, as the quadratic
    program that it is, and the cross-entropy by Newton on the N x 3 true-class probabilities.
    Where T = 1 the first two components are the same, and w1 is zero.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right
    >>> EnsembleTemperatureScaling().fit(logits, y).predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    name = "ets"
    title = "ensemble temperature scaling"
    reference = "Zhang et al., ICML 2020"
    stores = "4 numbers"
    preserves_accuracy = True
    shift_invariant = True
    state = "flat"

    loss: Loss = field(default="mse", metadata=stored(TEXT))
    temperature_loss: Loss = field(default="nll", metadata=stored(TEXT))
    bounds: Bounds = field(default=DEFAULT_BOUNDS, metadata=stored(BOUNDS))
    prior: float = field(default=0.0, metadata=stored(REAL))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    weights_: tuple[float, float, float] = field(
        init=False, repr=False, metadata=stored(Row((REAL, REAL, REAL)))
    )

    def _check_options(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_choice("temperature_loss", self.temperature_loss, LOSSES)
        check_bounds("bounds", as_bounds(self.bounds))
        check_prior(self.prior)
        if self.prior and self.temperature_loss != "nll":
            raise ValueError("prior is for temperature_loss='nll'; leave it at 0 with another.")

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)
        if min(self.weights_) < 0 or abs(sum(self.weights_) - 1) > 1e-9:
            raise ValueError(f"weights_ must be >= 0 and sum to one, got {self.weights_}.")

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        ts = fit_temperature(
            logits,
            y,
            weight=weight,
            loss=self.temperature_loss,
            bounds=self.bounds,
            soft=soft_weight_of(logits, y, weight, self.prior),
        )
        data = overlaps(logits, y, ts.temperature, weight)
        fit_weights = fit_weights_mse if self.loss == "mse" else fit_weights_nll
        weights, after = fit_weights(data)
        self.temperature_ = ts.temperature
        w0, w1, w2 = (float(w) for w in weights)
        self.weights_ = (w0, w1, w2)
        before = (
            float(data.gram[1, 1] - 2 * data.target[1] + 1)
            if self.loss == "mse"
            else mixed_nll(data, np.array([0.0, 1.0, 0.0]))
        )
        return FitSummary(
            loss=self.loss,
            loss_before=before,
            loss_after=after,
            iterations=ts.solution.iterations,
            converged=ts.solution.converged,
            notes=bound_notes(ts),
        )

    def _describe(self) -> list[str]:
        scaled, raw, uniform = self.weights_
        return [
            f"A mixture of the softmax at temperature {self.temperature_:.4g}"
            f" ({100 * scaled:.3g} %), the softmax itself ({100 * raw:.3g} %) and the uniform"
            f" distribution ({100 * uniform:.3g} %)."
        ]

    def _bind(self, rows: Rows) -> Bound:
        scaled, raw, uniform = self.weights_

        def fill(block: Block, out: Proba) -> None:
            block.softmax(np.array([1 / self.temperature_]), out)
            out *= scaled
            if raw:
                other = np.empty_like(out)
                block.softmax(np.ones(1), other)
                other *= raw
                out += other
            block.add_uniform(uniform, out)

        def mix(block: Block) -> FloatArray:
            top = scaled * block.confidence(np.array([1 / self.temperature_]))
            if raw:
                top += raw * block.confidence(np.ones(1))
            return top + uniform * block.uniform()

        return Bound(rows.logits, fill, mix)
