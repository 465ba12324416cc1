"""A temperature that is a smooth function of the free energy: energy scaling without densities."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal.calibrators.energy import Gaussian, fit_gaussians
from wildcal.calibrators.softplus import fit_softplus, softplus_temperature
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, bound_notes, fit_temperature
from wildcal.core.arrays import FloatArray
from wildcal.core.block import Block
from wildcal.core.blocks import added, map_blocks
from wildcal.core.calibrator import FitSummary, TemperatureMap
from wildcal.core.checks import check_bounds, looks_like_log_proba
from wildcal.core.columns import derived, equal_weights, row_values
from wildcal.core.ood_share import OodShare, check_ood_share, shared
from wildcal.core.rows import Rows
from wildcal.core.stored import REAL, TEXT, Either, Row, stored


@final
@dataclass(kw_only=True, eq=False)
class EnergyLinear(TemperatureMap):
    """p = softmax(z / T(x)), T = softplus(a + b F), F = -logsumexp(z).

    The plainest map from energy to temperature: it shows what the two normal densities of energy
    scaling add. a and b minimize the squared error of the probabilities; rows with y == -1 are
    pulled towards the uniform distribution, as in `EnergyScaling`.

    Parameters
    ----------
    bounds
        Range of T, kept for every input.
    ood_share
        Weight of out-of-distribution rows, as in `EnergyScaling`.

    Notes
    -----
    Our own ablation of energy-based instance-wise scaling (ECCV 2024). The energy moves when a
    constant is added to a row, so pass raw logits, never log_softmax. Where all energies are the
    same, b is zero and the result is temperature scaling, with a warning. The fit standardizes F;
    `intercept_` and `slope_` are a and b in the units of F itself.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> calibrator = EnergyLinear().fit(*suite.tuning)
    >>> calibrator.slope_ > 0  # the higher the energy, the stranger the row, the less sure
    True
    """

    name = "energy-linear"
    title = "temperature from the energy, without densities"
    reference = "an ablation of EnergyScaling"
    stores = "2 numbers"
    shift_invariant = False
    state = "flat"
    needs_raw_logits = True
    accepts_ood = True

    bounds: tuple[float, float] = field(default=DEFAULT_BOUNDS, metadata=stored(Row((REAL, REAL))))
    ood_share: OodShare = field(default="paper", metadata=stored(Either((REAL, TEXT))))
    intercept_: float = field(init=False, repr=False, metadata=stored(REAL))
    slope_: float = field(init=False, repr=False, metadata=stored(REAL))

    def _check_options(self) -> None:
        check_bounds("bounds", self.bounds)
        check_ood_share(self.ood_share)

    def _reads_energy(self) -> bool:
        return self.slope_ != 0

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = shared(rows, self.ood_share).tuning()
        weight = equal_weights(y, weight)
        # Temperature scaling sees in-distribution rows only.
        known = derived(lambda w, labels: w * (labels >= 0), weight, y)
        ts = fit_temperature(logits, y, weight=known, bounds=self.bounds)
        notes = list(bound_notes(ts))
        energy = row_values(logits, Block.energy)
        (found,) = fit_gaussians(logits, energy, lambda _, w: w[:, None], weight)
        far = map_blocks(logits, lambda b: int(not looks_like_log_proba(energy(b))), added)
        spread = found or Gaussian(0.0, 1.0)
        n_coefficients = 2
        if not far or found is None:
            notes.append(
                "every row has the same energy, as after log_softmax; fell back to one"
                " temperature. Pass the scores before the log_softmax."
            )
            spread, n_coefficients = Gaussian(0.0, 1.0), 1

        def columns(block: Block) -> FloatArray:
            scaled = (energy(block) - spread.mean) / spread.std
            return np.column_stack([np.ones(block.n), scaled])[:, :n_coefficients]

        fit = fit_softplus(
            logits,
            y,
            weight,
            row_values(logits, columns),
            n_coefficients,
            loss="mse",
            temperature=ts.temperature,
            bounds=self.bounds,
        )
        self.slope_ = float(fit.phi[1] / spread.std) if len(fit.phi) == 2 else 0.0
        self.intercept_ = float(fit.phi[0]) - self.slope_ * spread.mean
        return fit.summary("mse", ts, notes)

    def _describe(self) -> list[str]:
        return [
            f"Logits are divided by softplus({self.intercept_:.4g} + {self.slope_:.4g} F), where F"
            " is the energy of the row."
        ]

    def _temperature(self, block: Block) -> FloatArray:
        if self.slope_ == 0:
            return softplus_temperature(np.full(block.n, self.intercept_), self.bounds)
        return softplus_temperature(self.intercept_ + self.slope_ * block.energy(), self.bounds)
