"""An alarm that may ring at any row: bets against "nothing has changed", added up.

A bet on a direction of the features x of a row, in units of clean rows, multiplies its stake by

    1 + λ (±a'x - δ),

which is a fair game or worse as long as the mean of a'x is within δ of the clean one, whatever the
distribution is. A change may begin at any time, so a new stake of 1 is put on every bet at each
block of 8 rows: M ← (M + 1) Π (1 + λ (±a'x - δ)). On clean rows the mean of M after n blocks is at
most n, so it passes a limit A with a probability of at most n / A, however often one looks.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray

BLOCK: Final = 8
"""Rows between two looks."""
PER: Final = 100_000
"""The rows that a rate of false alarms is counted over."""
# Parts of the largest stake that cannot be lost at once: for strong and for weak shifts.
_PARTS: Final = (0.9, 0.5, 0.2, 0.08)
_DIRECTIONS: Final = 8
BETS: Final = _DIRECTIONS * len(_PARTS)
# The 99 % quantile of chi-squared with two degrees of freedom.
_CHI2_99: Final = 9.210340371976182
_LEAST_VARIANCE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Bets:
    """The bets on two features whose clean mean is 0, variance 1 and correlation known."""

    weights: FloatArray
    """λ a of each bet, shape (BETS, 2)."""
    allowance: FloatArray
    """λ δ of each bet."""
    limit: float
    """A, in mean stakes."""

    @classmethod
    def make(
        cls, correlation: float, clean_rows: int, box: FloatArray, false_alarms: float
    ) -> "Bets":
        """Return bets on features within a box, shape (2, 2): the least and the most of each.

        δ is the error that the clean means of 99 % of fits on `clean_rows` rows stay within. A is
        such that in 100,000 clean rows there are at most `false_alarms` alarms on average.
        """
        both = np.sqrt(max(2 * (1 + correlation), _LEAST_VARIANCE))
        apart = np.sqrt(max(2 * (1 - correlation), _LEAST_VARIANCE))
        plain = np.array([[1, 0], [0, 1], [1 / both, 1 / both], [1 / apart, -1 / apart]])
        directions = np.concatenate([plain, -plain])
        delta = np.sqrt(_CHI2_99 / clean_rows)
        # The least that a'x can be, over the corners of the box.
        least = (directions * np.where(directions > 0, box[0], box[1])).sum(axis=1)
        largest = 1.0 / np.maximum(delta - least, _LEAST_VARIANCE)
        stakes = np.multiply.outer(largest, np.array(_PARTS))  # directions x parts
        weights = (stakes[:, :, None] * directions[:, None, :]).reshape(BETS, 2)
        return cls(weights, delta * stakes.ravel(), PER / BLOCK / false_alarms)

    def factors(self, x: FloatArray) -> FloatArray:
        """Return what each row multiplies each bet by, from features (2, n); shape (n, BETS)."""
        # Not a matrix product, whose last bit may depend on how many rows there are.
        first, second = self.weights.T
        return np.asarray(1.0 - self.allowance + x[0][:, None] * first + x[1][:, None] * second)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the bets have made so far; a new one replaces it as a whole."""

    stakes: FloatArray
    """M of each bet at the last look."""
    pending: FloatArray
    """The product of the rows since then."""
    count: int
    """How many these are, fewer than a block."""
    since: int
    """Rows since the limit was last passed, or since the beginning."""
    alarm: bool

    @classmethod
    def none(cls) -> "Evidence":
        """Return the evidence before the first row."""
        return cls(np.zeros(BETS), np.ones(BETS), 0, 0, False)


def follow(
    bets: Bets, now: Evidence, x: FloatArray, decided: BoolArray, moved: BoolArray, window: int
) -> tuple[BoolArray, Evidence]:
    """Return whether the alarm rings after each row, and the evidence after all of them.

    It begins where the mean of the stakes passes the limit; they then start anew. It ends where a
    window that is all new looks clean, and the limit was not passed within that window.

    Parameters
    ----------
    bets, now
        The bets, and what they have made so far.
    x
        Features of the new rows, shape (2, n).
    decided, moved
        Whether a window is all new at each row, and whether it was then too far from clean.
    window
        Rows in a window.
    """
    n = x.shape[1]
    alarms = np.zeros(n, np.bool_)
    stakes, since, alarm = now.stakes, now.since, now.alarm
    ends = np.flatnonzero(decided & ~moved).tolist()
    start = 0
    products, last = _products(bets.factors(x), now)
    for product in (*products, None):  # None for the rows after the last whole block
        stop = n if product is None else min(n, start + BLOCK - (now.count if start == 0 else 0))
        alarms[start:stop] = alarm
        while ends and ends[0] < stop:
            end = ends.pop(0)
            if since + end + 1 - start >= window:
                alarm = False
                alarms[end:stop] = False
        since += stop - start
        if product is not None:
            stakes = (stakes + 1.0) * product
            if stakes.mean() >= bets.limit:
                stakes, since, alarm = np.zeros(BETS), 0, True
                alarms[stop - 1] = True
        start = stop
    return alarms, Evidence(stakes, last, (now.count + n) % BLOCK, since, alarm)


def _products(factors: FloatArray, now: Evidence) -> tuple[list[FloatArray], FloatArray]:
    """Return the product of each block that rows complete, and of the rows after the last.

    Rows are multiplied one by one, so the bits do not depend on how they came in calls.
    """
    head = (BLOCK - now.count) % BLOCK
    first, rest = factors[:head], factors[head:]
    pending = now.pending
    for row in first:
        pending = pending * row
    found = []
    if head:
        if len(first) < head:
            return [], pending
        found.append(pending)
    whole = len(rest) // BLOCK * BLOCK
    blocks = rest[:whole].reshape(-1, BLOCK, BETS)
    product = np.ones((len(blocks), BETS))
    for i in range(BLOCK):
        product = product * blocks[:, i]
    found += list(product)
    pending = np.ones(BETS)
    for row in rest[whole:]:
        pending = pending * row
    return found, pending


def to_dict(evidence: Evidence) -> dict[str, Any]:
    """Return the evidence as plain numbers, for the state of a stream."""
    return {
        "stakes": evidence.stakes.tolist(),
        "pending": evidence.pending.tolist(),
        "count": evidence.count,
        "since": evidence.since,
        "alarm": evidence.alarm,
    }


def from_dict(document: Any) -> Evidence:
    """Return the evidence that `to_dict` described; raise a ValueError if it cannot be one."""
    stakes, pending = (
        _stakes(document[name], f"{name} of the alarm") for name in ("stakes", "pending")
    )
    count, since, alarm = document["count"], document["since"], document["alarm"]
    if type(count) is not int or not 0 <= count < BLOCK:
        raise ValueError(f"count of the alarm must be 0 to {BLOCK - 1}.")
    if type(since) is not int or not 0 <= since < 1 << 60 or type(alarm) is not bool:
        raise ValueError("since and alarm of the alarm must be a whole number and true or false.")
    return Evidence(stakes, pending, count, since, alarm)


def _stakes(values: Any, name: str) -> FloatArray:
    if not isinstance(values, list) or len(values) != BETS:
        raise ValueError(f"{name} must be a list of {BETS}.")
    if not all(type(value) is float and 0 <= value < 1e300 for value in values):
        raise ValueError(f"{name} must be numbers of at least 0.")
    return np.array(values)
