"""Temperature scaling mixed with a little of the uniform distribution."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

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
from wildcal.core.blocks import added, map_blocks
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.checks import check_bounds, check_temperature
from wildcal.core.columns import total
from wildcal.core.objective import mean_loss
from wildcal.core.rows import Rows
from wildcal.core.stored import REAL, stored


@final
@dataclass(kw_only=True, eq=False)
class TemperatureMix(Calibrator):
    """p = (1 - e) softmax(z / T) + e / K, with e = 1 / (N + 1) and N held-out rows.

    The mixture is what one more row, with a label drawn at random, would teach: no class ever
    gets a probability below 1 / (K (N + 1)), so that a single confident mistake at test time
    costs a bounded amount of cross-entropy. With sample weights N is their sum.

    Parameters
    ----------
    bounds
        Range of T.

    Notes
    -----
    Called "ts-mix" in the probmetrics package (Berta et al., Rethinking early stopping, 2025),
    whose numbers it reproduces.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right, and one row more that could be either
    >>> TemperatureMix().fit(logits, y).predict_proba(logits)[0].round(6)
    array([0.7, 0.3])
    """

    name = "tsmix"
    title = "temperature scaling with a uniform part"
    reference = "Berta et al., 2025 (probmetrics)"
    stores = "2 numbers"
    preserves_accuracy = True
    shift_invariant = True
    state = "flat"

    bounds: Bounds = field(default=DEFAULT_BOUNDS, metadata=stored(BOUNDS))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    uniform_: float = field(init=False, repr=False, metadata=stored(REAL))

    def _check_options(self) -> None:
        check_bounds("bounds", as_bounds(self.bounds))

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)
        if not 0 <= self.uniform_ <= 1:
            raise ValueError(f"uniform_ must lie in [0, 1], got {self.uniform_}.")

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        ts = fit_temperature(logits, y, weight=weight, bounds=self.bounds)
        self.temperature_ = ts.temperature
        self.uniform_ = uniform_part(len(y), weight)
        uniform, beta = self.uniform_, 1 / ts.temperature

        def sums(block: Block) -> tuple[float, float]:
            w = np.ones(block.n) if weight is None else weight[block.rows]
            likely = np.exp(-block.log_loss(np.full(block.n, beta), y[block.rows]))
            mixed = (1 - uniform) * likely + uniform / logits.shape[1]
            return float(w @ -np.log(mixed)), float(w.sum())

        after, weighed = map_blocks(logits, sums, added)
        return FitSummary(
            loss="nll",
            loss_before=mean_loss(logits, y, weight, 1.0, "nll"),
            loss_after=float(after / weighed),
            iterations=ts.solution.iterations,
            converged=ts.solution.converged,
            notes=bound_notes(ts),
        )

    def _describe(self) -> list[str]:
        return [
            f"All logits are divided by {self.temperature_:.4g}; {100 * self.uniform_:.3g} % of"
            " the result is the uniform distribution."
        ]

    def _bind(self, rows: Rows) -> Bound:
        def fill(block: Block, out: Proba) -> None:
            mixed_softmax(block, self.temperature_, self.uniform_, out)

        def mix(block: Block) -> FloatArray:
            top = block.confidence(np.array([1 / self.temperature_]))
            return (1 - self.uniform_) * top + self.uniform_ * block.uniform()

        return Bound(rows.logits, fill, mix)


def uniform_part(n_rows: int, weight: FloatArray | None) -> float:
    """Return 1 / (N + 1), with N the number of rows or the sum of their weights."""
    return 1 / (1 + (n_rows if weight is None else total(weight)))


def mixed_softmax(block: Block, temperature: float, uniform: float, out: Proba) -> None:
    """Write (1 - uniform) softmax(z / T) + uniform / K into `out`, K the possible classes."""
    block.softmax(np.array([1 / temperature]), out)
    out *= 1 - uniform
    block.add_uniform(uniform, out)
