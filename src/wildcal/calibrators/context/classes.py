"""What the predicted classes of a window say, while rows come and go.

All numbers are whole, and so exact in any order of rows: the same bits however they came.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, Labels

SHARE_UNIT: Final = 2.0**30
"""Shares of classes are counted in parts of this. Windows of 2^23 rows are still exact in float64;
larger ones are rounded as any float is."""
UNIT: Final = 2.0**-40
"""Features of rows that roll are kept in whole numbers of this."""
LEAST_LEAD: Final = 0.02
# Numbers looked at together while a window fills.
_TOGETHER: Final = 1 << 18


class ClassRows(NamedTuple):
    """Rows that enter or leave a window: their classes, and confidences in units of 2^-40."""

    pred: Labels
    sure: NDArray[np.int64]


def whole_shares(shares: FloatArray) -> FloatArray:
    """Return shares of classes as whole numbers in float64."""
    return np.asarray(np.rint(shares * SHARE_UNIT))


class _Moves:
    """Rows that enter and leave, one after the other: the last entering ones each push one out."""

    def __init__(self, counts: Labels, entering: Labels, leaving: Labels) -> None:
        self._free = len(entering) - len(leaving)
        self.signs = self.in_order(np.ones(len(entering), np.int64), -np.ones_like(leaving))
        self.entering = self.signs > 0
        self.classes = self.in_order(entering, leaving)
        # In order of class, a running sum of changes is the state of that class, up to a constant.
        # Small numbers are sorted several times as fast.
        small = self.classes.astype(np.int16) if len(counts) < 1 << 15 else self.classes
        self._order = np.argsort(small, kind="stable")
        self._sorted = self.classes[self._order]
        self._first = np.flatnonzero(np.diff(self._sorted, prepend=-1))
        self._spans = np.diff(self._first, append=len(self._order))
        self.before = self.just_before(counts, self.signs)
        """How many rows of its class were in the window just before."""

    def in_order(self, entering: NDArray[Any], leaving: NDArray[Any]) -> NDArray[Any]:
        """Return what belongs to rows, in the order of their moves."""
        pairs = np.stack([leaving, entering[self._free :]], axis=1).ravel()
        return np.concatenate([entering[: self._free], pairs])

    def just_before(self, start: NDArray[np.int64], change: NDArray[np.int64]) -> Labels:
        """Return the sum over the class of each row before its move, which changes it by that."""
        changes = change[self._order]
        running = np.cumsum(changes) - changes
        running += start[self._sorted] - np.repeat(running[self._first], self._spans)
        found = np.empty_like(running)
        found[self._order] = running
        return found


def pairs_of(counts: Labels) -> float:
    """Return Σ c_k (c_k - 1): how many ordered pairs of rows share a class."""
    c = np.asarray(counts, np.float64)
    return float(c @ (c - 1))


def rolling_pairs(counts: Labels, entering: Labels, leaving: Labels) -> FloatArray:
    """Return Σ c_k (c_k - 1) after each entering row.

    Parameters
    ----------
    counts
        c_k, the rows of each class in the window at the beginning.
    entering, leaving
        The classes of rows in order. The last len(leaving) entering rows each push one row out,
        just before they enter; the window was not full before.

    Examples
    --------
    A second row of class 0 makes two ordered pairs; then it is pushed out by one of class 1.

    >>> rolling_pairs(np.array([1, 1]), np.array([0, 1]), np.array([0]))
    array([2., 2.])
    """
    moves = _Moves(counts, entering, leaving)
    # A row makes 2 c pairs with the c others of its class, and takes 2 (c - 1) away.
    change = 2 * np.where(moves.signs > 0, moves.before, 1 - moves.before)
    return np.asarray(pairs_of(counts) + np.cumsum(change)[moves.entering])


def surplus_of(shares: FloatArray, counts: Labels | FloatArray) -> float:
    """Return Σ_k max(0, c_k - n q_k) in parts of 2^-30, q_k in `whole_shares`.

    Since counts sum to n and shares to one, this is n times their total variation.

    >>> surplus_of(whole_shares(np.array([0.5, 0.5])), np.array([3, 1])) / SHARE_UNIT
    1.0
    """
    c = np.asarray(counts, np.float64)
    return float(np.maximum(c * SHARE_UNIT - c.sum() * shares, 0.0).sum())


def rolling_surplus(
    shares: FloatArray, counts: Labels, entering: Labels, leaving: Labels
) -> FloatArray:
    """Return the surplus of the window after each entering row; arguments as above.

    >>> q = whole_shares(np.array([0.5, 0.5]))
    >>> rolling_surplus(q, np.array([1, 1]), np.array([0, 1]), np.array([0])) / SHARE_UNIT
    array([0.5, 0.5])
    """
    free = len(entering) - len(leaving)
    parts = [_filling_surplus(shares, counts, entering[:free])] if free else []
    if len(leaving):
        counts = counts + np.bincount(entering[:free], minlength=len(counts))
        moves = _Moves(counts, entering[free:], leaving)
        expected = float(counts.sum()) * shares[moves.classes]
        now, then = (
            np.maximum(c * SHARE_UNIT - expected, 0.0)
            for c in (moves.before, moves.before + moves.signs)
        )
        parts.append(surplus_of(shares, counts) + np.cumsum(then - now)[moves.entering])
    return np.concatenate(parts)


def _filling_surplus(shares: FloatArray, counts: Labels, entering: Labels) -> FloatArray:
    """Return the surplus after each row while none leaves, in O(classes + rows log rows).

    With every row n grows, and all terms c_k - n q_k fall. But between two rows of a class its
    count stays, so its term is positive up to a known n: it is one addition and one subtraction.
    """
    rows, start = len(entering), int(counts.sum())
    moves = _Moves(counts, entering, entering[:0])
    known = np.flatnonzero(counts)
    # Spells in which a class has the same count, from the row with which they begin.
    classes = np.concatenate([known, entering])
    spell = np.concatenate([counts[known], moves.before + 1])
    begin = np.concatenate([np.zeros(len(known), np.int64), np.arange(rows)])
    # The spells that were there before begin together with those of the first row.
    head = np.arange(len(classes)) < len(known)
    order = np.lexsort((~head, begin, classes))
    following = np.full(len(classes), rows)
    same = classes[order][1:] == classes[order][:-1]
    following[order[:-1][same]] = begin[order][1:][same]
    share = shares[classes].astype(np.int64)
    parts = spell * int(SHARE_UNIT)
    positive = np.where(share > 0, (parts - 1) // np.maximum(share, 1), start + rows)
    end = np.clip(positive - start, begin, following)
    held, due = (
        np.cumsum(np.bincount(begin, w, rows + 1) - np.bincount(end, w, rows + 1))[:rows]
        for w in (spell, share)
    )
    n = start + np.arange(1, rows + 1)
    return np.asarray(held * SHARE_UNIT - n * due)


def price(counts: FloatArray, sure: FloatArray, expected: FloatArray) -> FloatArray:
    """Return the confidence it costs to move surplus rows out of each class, per class.

    A class with c rows where d were expected has a surplus share x = 1 - d / c. Its rows lead by
    μ = 2 (mean confidence) - 1 on average over the next class; if leads are spread as u^(1/μ - 1)
    over u in (0, 1), the x with the smallest lead lose c ∫_0^x u^(1/μ - 1) du = c μ x^(1/μ).

    >>> print(price(np.array([4.0, 0.0]), np.array([3.0, 0.0]), np.array([2.0, 2.0])))
    [0.5 0. ]
    """
    rows = np.maximum(counts, 1e-12)
    surplus = np.maximum(counts - expected, 0.0) / rows
    lead = np.clip(2 * sure / rows - 1, LEAST_LEAD, 1.0)
    return np.asarray(counts * lead * surplus ** (1 / lead))


def price_of(shares: FloatArray, counts: Labels | FloatArray, sure: FloatArray) -> float:
    """Return the price of a window in parts of 2^-30; `sure` is Σ confidence by class."""
    c = np.asarray(counts, np.float64)
    return float(_whole_price(c, sure, c.sum() * shares).sum())


def _whole_price(counts: FloatArray, sure: FloatArray, expected: FloatArray) -> FloatArray:
    return np.asarray(np.rint(price(counts, sure, expected / SHARE_UNIT) * SHARE_UNIT))


def _real(sure: NDArray[np.int64]) -> FloatArray:
    return np.asarray(sure * UNIT, np.float64)


def rolling_price(
    shares: FloatArray,
    counts: Labels,
    sure: NDArray[np.int64],
    entering: ClassRows,
    leaving: ClassRows,
) -> FloatArray:
    """Return the price of the window after each entering row, as `rolling_surplus` does.

    `sure` are the sums of confidence by class, in units of 2^-40.
    """
    free, k = len(entering.pred) - len(leaving.pred), len(counts)
    parts, step = [], max(1, _TOGETHER // k)
    for start in range(0, free, step):
        # While the window fills, every new row changes what is expected of all classes.
        rows = ClassRows(*(of[start : min(start + step, free)] for of in entering))
        here = rows.pred[:, None] == np.arange(k)
        each = counts + np.cumsum(here, axis=0)
        inside = sure + np.cumsum(np.where(here, rows.sure[:, None], 0), axis=0)
        expected = each.sum(axis=1, keepdims=True) * shares
        parts.append(_whole_price(each.astype(np.float64), _real(inside), expected).sum(axis=1))
        counts, sure = each[-1], inside[-1]
    if len(leaving.pred):
        coming = ClassRows(*(of[free:] for of in entering))
        moves = _Moves(counts, coming.pred, leaving.pred)
        change = moves.in_order(coming.sure, -leaving.sure)
        inside = moves.just_before(sure, change)
        expected = float(counts.sum()) * shares[moves.classes]
        now, then = (
            _whole_price(c.astype(np.float64), _real(s), expected)
            for c, s in (
                (moves.before, inside),
                (moves.before + moves.signs, inside + change),
            )
        )
        begin = price_of(shares, counts, _real(sure))
        parts.append(begin + np.cumsum(then - now)[moves.entering])
    return np.concatenate(parts)
