"""ACE: between two temperatures, of all clean rows and of hard ones, by the window's confidence."""

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from wildcal.calibrators.temperature import DEFAULT_BOUNDS
from wildcal.core.arrays import FloatArray, Logits
from wildcal.core.block import Block
from wildcal.core.calibrator import FitSummary
from wildcal.core.checks import check_bounds, check_temperature
from wildcal.core.rows import Rows
from wildcal.core.softmax import confidence_at, predicted_class
from wildcal.core.stored import REAL, Row, stored
from wildcal.window.clean import scaled, summary
from wildcal.window.matching import mean_confidence_at
from wildcal.window.reader import Told, WindowTemperature

_CORRECT_SHARE: Final = 0.1
"""Correct rows of the hard set for each one that is wrong."""
_NO_MISTAKE: Final = "no clean row is wrong, so there is no hard set; this is temperature scaling."


def _raw(block: Block) -> FloatArray:
    return np.ones(block.n)


@final
@dataclass(kw_only=True, eq=False)
class AdaptiveEnsemble(WindowTemperature):
    """p = softmax(z / T), 1/T = α/T0 + (1 - α)/T1, α = window confidence / clean confidence.

    T0 is the temperature of the clean rows, T1 that of a hard set: all rows that are wrong, and a
    tenth as many that are right. Confidences are those of the raw softmax. α is not cut at 1, so a
    window that is more confident than the clean rows is extrapolated; T stays within [0.01, 100].

    Parameters
    ----------
    bounds
        Range of T0 and T1, as in the authors' script, where the upper end often binds.

    Notes
    -----
    Zou, Deng, Zheng, Adaptive calibrator ensemble, ICCV 2023. The authors draw the correct rows of
    the hard set with replacement; here all of them have a weight with the same sum, which is what
    the draw is on average (and some, where fewer than ten rows are wrong, which leaves the draw
    none). For one temperature, averaging the logits of both calibrators is the formula above.
    """

    name = "ace"
    title = "adaptive calibrator ensemble"
    reference = "Zou et al., ICCV 2023"
    stores = "3 numbers"

    bounds: tuple[float, float] = field(default=(0.5, 3.0), metadata=stored(Row((REAL, REAL))))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    hard_temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    clean_confidence_: float = field(init=False, repr=False, metadata=stored(REAL))
    """Mean of the raw softmax's maximum."""

    def _check_options(self) -> None:
        check_bounds("bounds", self.bounds)

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)
        check_temperature("hard_temperature_", self.hard_temperature_)
        if not 0 < self.clean_confidence_ <= 1:
            raise ValueError("clean_confidence must lie in (0, 1]")

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        weights = np.ones(len(y)) if weight is None else weight
        fit = scaled(rows, self.bounds)
        right = predicted_class(logits) == y
        wrong = float(weights[~right].sum())
        hard = np.where(right, 0.0, weights)
        if right.any() and wrong > 0 and weights[right].sum() > 0:
            hard += np.where(right, weights, 0.0) * _CORRECT_SHARE * wrong / weights[right].sum()
        self.temperature_ = fit.temperature
        self.hard_temperature_ = (
            scaled(Rows(logits, y, hard), self.bounds).temperature if wrong else fit.temperature
        )
        self.clean_confidence_ = float(np.average(confidence_at(logits, _raw), weights=weights))
        return summary(rows, fit, () if wrong else (_NO_MISTAKE,))

    def _read(self, logits: Logits) -> Told:
        alpha = mean_confidence_at(logits, 1.0) / self.clean_confidence_
        inverse = alpha / self.temperature_ + (1 - alpha) / self.hard_temperature_
        low, high = DEFAULT_BOUNDS
        temperature = min(high, max(low, 1 / inverse)) if inverse > 0 else high
        return Told(np.array([temperature]))

    def _describe(self) -> list[str]:
        return [
            f"Logits are divided by {self.temperature_:.4g} where the window is as confident as the"
            f" clean rows ({100 * self.clean_confidence_:.1f} %), and the less confident it is, the"
            f" nearer to {self.hard_temperature_:.4g}."
        ]
