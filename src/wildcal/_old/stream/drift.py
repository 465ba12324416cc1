"""How far a window is from the clean rows, and when that is too far to be chance."""

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Final

import numpy as np
from scipy.special import chndtr, chndtrix

from wildcal._old.core.arrays import FloatArray

# The 99 % quantile of chi-squared with two degrees of freedom.
_CHI2_99: Final = 9.210340371976182
# Where energy is all but a function of confidence, their difference is not judged more finely.
_LEAST_VARIANCE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the window is from clean now, and whether the alarm rings."""

    score: float
    """Distance of the window's mean energy and confidence from clean, in standard errors."""
    p_value: float
    """How often a clean window would be as far."""
    threshold: float
    """The score that a clean window passes with the rate of false alarms that was set."""
    alarm: bool
    """Whether it rings, as the stream decides it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dictionary."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DriftTest:
    """The distance d of a window's means g from clean: d² = n g' S⁻¹ g.

    S has ones on its diagonal and the clean correlation beside it. On clean rows, d² is nearly
    chi-squared with two degrees of freedom; not quite, because the clean means are themselves
    those of finitely many rows. Their error δ is fixed once the calibrator is fitted, and makes d²
    non-central with n δ' S⁻¹ δ. The test allows for the δ that 99 % of fits stay within, 9.21 / N
    with N clean rows, so that the rate holds for the fit at hand and not for the average fit.
    """

    correlation: float
    clean_rows: int
    window: int
    false_alarms: float

    @property
    def threshold(self) -> float:
        """The d that clean windows pass with the rate of false alarms."""
        return float(np.sqrt(chndtrix(1 - self.false_alarms, 2, self._noncentrality)))

    def score(self, n: FloatArray | float, means: FloatArray) -> FloatArray:
        """Return d for windows of n rows with these means of energy and confidence, (2, ...)."""
        return np.asarray(np.sqrt(self._square(n, means[0], means[1])))

    def score_of(self, n: int, first: float, second: float) -> float:
        """Return d for one window of n rows, the same bits."""
        return sqrt(self._square(n, first, second))

    def _square(self, n: Any, first: Any, second: Any) -> Any:
        # The sum and the difference of the two are uncorrelated.
        both, apart = first + second, first - second
        v_both = max(2 * (1 + self.correlation), _LEAST_VARIANCE)
        v_apart = max(2 * (1 - self.correlation), _LEAST_VARIANCE)
        return n * (both * both / v_both + apart * apart / v_apart)

    def p_value(self, score: float) -> float:
        """Return how often a clean window of full size is at this distance or further."""
        return max(0.0, 1.0 - float(chndtr(score * score, 2, self._noncentrality)))

    @property
    def _noncentrality(self) -> float:
        return _CHI2_99 * self.window / self.clean_rows
