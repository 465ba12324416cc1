"""An alarm that may ring at any row: bets against "nothing has changed", added up.

A bet on a direction of the features x of a row, in units of clean rows, multiplies its stake by

    1 + λ (±a'x - δ),

which is a fair game or worse as long as the mean of a'x is within δ of the clean one, whatever the
distribution is. A change may begin at any time, so a new stake of 1 is put on every bet at each
block of 8 rows: M ← (M + 1) Π (1 + λ (±a'x - δ)). On clean rows the mean of M after n blocks is at
most n, so it passes a limit A with a probability of at most n / A, however often one looks.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.stream.evidence import BETS, BLOCK, Evidence

PER: Final = 100_000
"""The rows that a rate of false alarms is counted over."""
# Parts of the largest stake that cannot be lost at once: for strong and for weak shifts.
_PARTS: Final = (0.9, 0.5, 0.2, 0.08)
# Blocks that are tried at once.
_FEWEST_AHEAD, _MOST_AHEAD = 4, 128
# The 99 % quantile of chi-squared with two degrees of freedom.
_CHI2_99: Final = 9.210340371976182
_LEAST_VARIANCE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Bets:
    """The bets on two features whose clean mean is 0, variance 1 and correlation known."""

    base: FloatArray
    """1 - λ δ of each bet."""
    first: FloatArray
    """λ times the part of the first feature in a."""
    second: FloatArray
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
        first, second = np.ascontiguousarray(weights.T)
        return cls(1.0 - delta * stakes.ravel(), first, second, PER / BLOCK / false_alarms)

    def factors(self, x: FloatArray) -> FloatArray:
        """Return what each row multiplies each bet by, from features (2, n); shape (n, BETS)."""
        # Not a matrix product, whose last bit may depend on how many rows there are.
        found = x[0][:, None] * self.first
        found += self.base
        found += x[1][:, None] * self.second
        return np.asarray(found)


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
    products, pending = _products(bets.factors(x), now)
    passed, stakes = _passed(bets.limit, now.stakes, products)
    begins = passed * BLOCK + BLOCK - 1 - now.count
    # Where both fall on one row, the alarm begins: 1 is sorted after 0.
    events = sorted(
        [(row, 1) for row in begins.tolist()]
        + [(row, 0) for row in np.flatnonzero(decided & ~moved).tolist()]
    )
    alarms = np.empty(n, np.bool_)
    alarm, last, at = now.alarm, -1 - now.since, 0
    for row, begin in events:
        alarms[at:row] = alarm
        at = row
        if begin:
            alarm, last = True, row
        elif row - last >= window:
            alarm = False
    alarms[at:] = alarm
    return alarms, Evidence(stakes, pending, (now.count + n) % BLOCK, n - 1 - last, alarm)


def _passed(
    limit: float, stakes: FloatArray, products: FloatArray
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the blocks after which the mean of the stakes passed the limit, and the last stakes.

    Several blocks are tried before their means are looked at, more of them while nothing happens.
    """
    found, start, ahead = [], 0, _FEWEST_AHEAD
    tried = np.empty((min(len(products), _MOST_AHEAD), BETS))
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the limit nothing counts
        while start < len(products):
            part = products[start : start + ahead]
            before = stakes
            for after, product in zip(tried, part, strict=False):
                np.multiply(np.add(before, 1.0, out=after), product, out=after)
                before = after
            over = tried[: len(part)].mean(axis=1) >= limit
            if over.any():
                first = int(over.argmax())
                found.append(start + first)
                start, stakes, ahead = start + first + 1, np.zeros(BETS), _FEWEST_AHEAD
            else:
                stakes = before.copy()
                start, ahead = start + len(part), min(2 * ahead, _MOST_AHEAD)
    return np.array(found, np.int64), stakes


def follow_row(
    bets: Bets, now: Evidence, x: tuple[float, float], looks_clean: bool, window: int
) -> Evidence:
    """Return the evidence after one row; `follow` does it for many, with the same bits.

    `looks_clean` says that a window was all new at this row, and not too far from clean.
    """
    factor = bets.base + x[0] * bets.first + x[1] * bets.second
    pending = factor if now.count == 0 else now.pending * factor
    stakes, since, alarm = now.stakes, now.since + 1, now.alarm
    if looks_clean and since >= window:
        alarm = False
    if now.count < BLOCK - 1:
        return Evidence(stakes, pending, now.count + 1, since, alarm)
    stakes = (stakes + 1.0) * pending
    if stakes.mean() >= bets.limit:
        stakes, since, alarm = np.zeros(BETS), 0, True
    return Evidence(stakes, np.ones(BETS), 0, since, alarm)


def _products(factors: FloatArray, now: Evidence) -> tuple[FloatArray, FloatArray]:
    """Return the product of each block that rows complete, and of the rows after the last.

    Rows are multiplied one by one, so the bits do not depend on how they came in calls.
    """
    head = (BLOCK - now.count) % BLOCK
    first, rest = factors[:head], factors[head:]
    pending = now.pending
    for row in first:
        pending = pending * row
    found = np.empty((0, BETS))
    if head:
        if len(first) < head:
            return found, pending
        found = pending[None]
    whole = len(rest) // BLOCK * BLOCK
    blocks = rest[:whole].reshape(-1, BLOCK, BETS)
    product = np.ones((len(blocks), BETS))
    for i in range(BLOCK):
        product = product * blocks[:, i]
    pending = np.ones(BETS)
    for row in rest[whole:]:
        pending = pending * row
    return np.concatenate([found, product]), pending
