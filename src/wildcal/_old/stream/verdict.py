"""Is the calibrator still calibrated? A test on labels that come late, looked at any time.

A row with confidence p is right (y = 1) or not. A bet against "within a tolerance τ, confidence is
accuracy" multiplies its stake by 1 + λ (±(p - y) - τ), a fair game or worse as long as that holds.
There are bets on three ranges of confidence, for too much and too little, small and large. It may
cease to hold at any label t, so a part 1 / (t (t + 1)) of the stake is kept for those that begin
there. All of it is worth at most 1 on average at any time, so it ever reaches 100 with a
probability of at most 1 in 100.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import BoolArray, FloatArray

TOLERANCE: Final = 0.05
ERROR: Final = 0.01
"""How often the verdict "re-fit" may be wrong, over all times it is looked at."""
_TIERS: Final = (0.5, 0.9)
_PARTS: Final = (0.9, 0.4, 0.15)
BETS: Final = (len(_TIERS) + 1) * 2 * len(_PARTS)
# Of the interval: widest certainty at about this many labels.
_PRIOR: Final = 50.0
REFIT, CALIBRATED, UNSURE = "re-fit", "still calibrated", "too few labels"


@dataclass(frozen=True, slots=True)
class Belief:
    """What labels have told so far."""

    n: int
    gap: float
    """Σ (p - y)."""
    stakes: FloatArray
    highest: float
    """The most that the bets were ever worth."""

    @classmethod
    def none(cls) -> "Belief":
        """Return the belief before the first label."""
        return cls(0, 0.0, np.zeros(BETS), 1.0)

    @property
    def interval(self) -> tuple[float, float]:
        """Mean confidence minus accuracy, within; holds at all times at once with 99 %."""
        if not self.n:
            return -1.0, 1.0
        # p - y lies in an interval of length 1, so its variance counts as at most 1/4.
        spread = self.n / 4 + _PRIOR
        reach = np.sqrt(spread * np.log(spread / _PRIOR / ERROR**2)) / self.n
        mean = self.gap / self.n
        return max(-1.0, float(mean - reach)), min(1.0, float(mean + reach))

    @property
    def verdict(self) -> str:
        """One of "re-fit", "still calibrated" (within twice the tolerance), "too few labels"."""
        if self.highest >= 1 / ERROR:
            return REFIT
        low, high = self.interval
        return CALIBRATED if -2 * TOLERANCE <= low and high <= 2 * TOLERANCE else UNSURE


def learn(belief: Belief, confidence: ArrayLike, right: ArrayLike) -> Belief:
    """Return the belief after some more labels, in the order they came.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sure = np.full(1000, 0.9)
    >>> learn(Belief.none(), sure, rng.random(1000) < 0.9).verdict
    'still calibrated'
    >>> learn(Belief.none(), sure, rng.random(1000) < 0.7).verdict
    're-fit'
    """
    p, y = np.asarray(confidence, np.float64), np.asarray(right, np.bool_)
    stakes, highest, n = belief.stakes, belief.highest, belief.n
    for factors in _factors(p, y):
        n += 1
        stakes = (stakes + 1.0 / (n * (n + 1))) * factors
        highest = max(highest, float(stakes.mean()) + 1.0 / (n + 1))
        # What is far beyond any limit need not grow, and must not overflow.
        stakes = np.minimum(stakes, 1e100)
    gap = belief.gap + float((p - y).sum())
    return Belief(n, gap, stakes, highest)


def _factors(p: FloatArray, y: BoolArray) -> FloatArray:
    """Return what each row multiplies each bet by; 1 outside its range of confidence."""
    tier = np.digitize(p, _TIERS)
    over = p - y
    largest = 1.0 / (1.0 + TOLERANCE)
    columns = []
    for k in range(len(_TIERS) + 1):
        for sign in (1.0, -1.0):
            for part in _PARTS:
                bet = 1.0 + part * largest * (sign * over - TOLERANCE)
                columns.append(np.where(tier == k, bet, 1.0))
    return np.stack(columns, axis=1)


def to_dict(belief: Belief) -> dict[str, Any]:
    """Return plain numbers."""
    return {
        "n": belief.n,
        "gap": belief.gap,
        "stakes": belief.stakes.tolist(),
        "highest": belief.highest,
    }


def from_dict(document: Any) -> Belief:
    """Return the belief that `to_dict` described; raise a ValueError if it cannot be one."""
    n, gap, stakes = document["n"], document["gap"], document["stakes"]
    numbers = [gap, document["highest"], *stakes]
    if type(n) is not int or n < 0 or len(stakes) != BETS:
        raise ValueError(f"labels must have a count and {BETS} stakes.")
    if not all(isinstance(v, float) and np.isfinite(v) for v in numbers) or min(stakes) < 0:
        raise ValueError("labels must be finite numbers.")
    return Belief(n, gap, np.array(stakes), document["highest"])
