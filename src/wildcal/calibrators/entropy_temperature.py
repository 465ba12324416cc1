"""Entropy-based temperature scaling: uncertain rows get a temperature of their own."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from wildcal.calibrators.softplus import fit_softplus, softplus_temperature
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, bound_notes, fit_temperature
from wildcal.core.arrays import FloatArray
from wildcal.core.block import Block
from wildcal.core.calibrator import FitSummary, TemperatureMap
from wildcal.core.checks import check_bounds
from wildcal.core.columns import row_values
from wildcal.core.rows import Rows
from wildcal.core.stored import REAL, Row, stored

# Where the softmax has saturated its entropy is zero, whose logarithm is not a number.
SMALLEST_ENTROPY = 1e-12


@final
@dataclass(kw_only=True, eq=False)
class EntropyTemperatureScaling(TemperatureMap):
    """p = softmax(z / T(x)), T = softplus(w log(H / log K) + b).

    H is the entropy of softmax(z), and H / log K lies in [0, 1]: T depends on how undecided the
    network is. w and b, each between -100 and 100, minimize the cross-entropy, starting from
    temperature scaling (w = 0).

    Parameters
    ----------
    bounds
        Range of T, kept for every input.

    Notes
    -----
    Balanya, Maroñas, Ramos, Adaptive temperature scaling for robust calibration of deep neural
    networks, 2022 (there "HTS"). The published code trains by stochastic gradient descent; here
    Newton with exact second derivatives needs a handful of passes. H is floored at 1e-12, and T
    is clipped to `bounds`.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0, n_ood_tuning=0)
    >>> calibrator = EntropyTemperatureScaling().fit(*suite.tuning)
    >>> calibrator.fit_.loss_after < calibrator.fit_.loss_before
    True
    """

    name = "hts"
    title = "entropy-based temperature scaling"
    reference = "Balanya et al., 2022"
    stores = "2 numbers"
    shift_invariant = True
    state = "flat"

    bounds: tuple[float, float] = field(default=DEFAULT_BOUNDS, metadata=stored(Row((REAL, REAL))))
    weight_: float = field(init=False, repr=False, metadata=stored(REAL))
    bias_: float = field(init=False, repr=False, metadata=stored(REAL))

    def _check_options(self) -> None:
        check_bounds("bounds", self.bounds)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        ts = fit_temperature(logits, y, weight=weight, bounds=self.bounds)
        fit = fit_softplus(
            logits,
            y,
            weight,
            row_values(logits, _design),
            2,
            loss="nll",
            temperature=ts.temperature,
            bounds=self.bounds,
        )
        self.bias_, self.weight_ = float(fit.phi[0]), float(fit.phi[1])
        return fit.summary("nll", ts, list(bound_notes(ts)))

    def _describe(self) -> list[str]:
        even, sure = self._at(np.log([1.0, 0.01]))
        return [
            f"Logits are divided by {even:.4g} where the network has no idea, and by {sure:.4g}"
            " where its entropy is 1 % of that."
        ]

    def _at(self, log_entropy: FloatArray) -> FloatArray:
        return softplus_temperature(self.weight_ * log_entropy + self.bias_, self.bounds)

    def _temperature(self, block: Block) -> FloatArray:
        return self._at(log_relative_entropy(block))


def _design(block: Block) -> FloatArray:
    return np.column_stack([np.ones(block.n), log_relative_entropy(block)])


def log_relative_entropy(block: Block) -> FloatArray:
    """Return log(H / log K) of each row, with the entropy H floored at 1e-12."""
    most = np.log(block.original.shape[1])
    return np.asarray(np.log(np.maximum(block.entropy(), SMALLEST_ENTROPY) / most))
