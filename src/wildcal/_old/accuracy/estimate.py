"""How accurate a network is on rows without labels: a number with its interval."""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

# The 97.5 % quantile of the normal distribution: intervals of 95 %.
_Z: Final = 1.959963984540054


@dataclass(frozen=True, slots=True)
class AccuracyEstimate:
    """The share of the window's rows that are classified rightly, as far as can be told.

    The interval is meant to hold the accuracy of these very rows 95 % of the time; docs/accuracy.md
    shows how often it did under shifts that were not tuned on.

    Examples
    --------
    >>> print(AccuracyEstimate(0.831, 0.802, 0.856, n=1000, clean_accuracy=0.921, method="cot"))
    83.1 % (80.2 to 85.6), 9.0 points below clean
    """

    value: float
    low: float
    high: float
    n: int
    """Rows in the window."""
    clean_accuracy: float
    """That of the labeled clean rows it is compared with."""
    method: str

    @property
    def below_clean(self) -> float:
        """How much less accurate than on the clean rows; negative where it looks better."""
        return self.clean_accuracy - self.value

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        points = 100 * abs(self.below_clean)
        side = "below" if self.below_clean >= 0 else "above"
        return (
            f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f}),"
            f" {points:.1f} points {side} clean"
        )


def interval(
    value: float, variance: float, model_error: float, too_low: float = 0.0
) -> tuple[float, float]:
    """Return the ends of the interval, v ± 1.96 √(variance + error²), within 0 and 1.

    `variance` is what the draw of the rows and of their labels does, `model_error` how far the
    method may be off beyond that, and `too_low` what chance alone takes off its value.
    """
    reach = _Z * float(np.sqrt(variance + model_error**2))
    return max(0.0, value - reach), min(1.0, value + reach + too_low)
