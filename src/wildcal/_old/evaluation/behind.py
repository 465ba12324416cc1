"""How far a method is behind the best, and whether that is more than chance: one definition."""

from dataclasses import dataclass

from wildcal._old.core.arrays import FloatArray
from wildcal._old.metrics.interval import PairedDifference, paired_interval
from wildcal._old.tables import Cell, number

NOT_SURE = "not sure"
"""Said of a difference whose paired interval holds 0."""
EXPLAINED = (
    "Behind: the difference to the best on the same resampled rows; not sure: its interval holds 0."
)


@dataclass(frozen=True, slots=True)
class Behind:
    """The difference of a method to the best; more is worse, whichever way the metric goes."""

    value: float
    interval: PairedDifference | None = None
    """On the same resampled rows; None for the best, and where nothing was resampled."""
    is_best: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether the difference is more than chance, as far as that is known."""
        return self.interval is None or self.interval.low > 0

    def cell(self, *, percent: bool = True, ends: bool = False) -> Cell:
        """Return it as tables show it, with the ends of the interval where there is room."""
        if self.is_best:
            return Cell("best", 0.0)
        doubt = "" if self.is_sure else NOT_SURE
        if ends and self.interval is not None:
            limits = self.interval.low, self.interval.high
            return number(self.value, limits, percent=percent, sign=True, more=doubt)
        return number(self.value, percent=percent, sign=True, more=f"({doubt})" if doubt else "")


def behind(
    value: float,
    best: float,
    drawn: FloatArray | None,
    drawn_best: FloatArray | None,
    *,
    level: float,
    higher_is_better: bool = False,
) -> Behind:
    """Return how far a value is behind that of the best, both on the same resampled rows."""
    sign = -1.0 if higher_is_better else 1.0
    gap = sign * (value - best)
    if gap == 0:
        return Behind(0.0, is_best=True)
    if drawn is None or drawn_best is None or gap != gap:
        return Behind(gap)
    return Behind(gap, paired_interval(gap, sign * (drawn - drawn_best), level))
