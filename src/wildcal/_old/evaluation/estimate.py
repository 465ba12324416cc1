"""One number with its company: the interval, the noise floor, and the rows it was measured on."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric on some rows. No interval excludes its own value.

    >>> Estimate(0.05, 0.03, 0.06, floor=0.01).excess
    0.04
    """

    value: float
    low: float | None = None
    """Lower end of the bootstrap interval; None where nothing was resampled."""
    high: float | None = None
    floor: float | None = None
    """The value that a perfectly calibrated model would have on as many rows; for the ECE only."""
    n: int = 0
    """The number of rows."""
    level: float = 0.95
    """Level of the interval."""

    @property
    def excess(self) -> float:
        """The value beyond its floor; NaN where there is none."""
        return float("nan") if self.floor is None else self.value - self.floor

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, where there is an interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def __str__(self) -> str:
        """Return the number with its company, as it is.

        >>> print(Estimate(0.05, 0.03, 0.06, floor=0.01))
        0.0500 (0.0300 to 0.0600), noise floor 0.0100
        """
        between = "" if self.interval is None else f" ({self.low:.4f} to {self.high:.4f})"
        floor = "" if self.floor is None else f", noise floor {self.floor:.4f}"
        return f"{self.value:.4f}{between}{floor}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)
