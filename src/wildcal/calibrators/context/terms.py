"""What the classes of a window add to its signs of shift, class by class.

Every number is rounded to a whole one, and so exact in any order of rows: the same bits however
they came.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators.context.classes import ClassRows, Moves
from wildcal.core.arrays import FloatArray, Labels

SHARE_UNIT: Final = 2.0**30
"""Numbers of classes are counted in parts of this. Windows of 2^23 rows are still exact in float64;
larger ones are rounded as any float is."""
UNIT: Final = 2.0**-40
"""Features of rows that roll are kept in whole numbers of this."""
LEAST_LEAD: Final = 0.02
CHANCE: Final = 4.0
"""In how far a class may have too many rows by chance: two standard deviations, squared."""
FEW: Final = 1.5
"""Rows that are added to those expected: one or two more say nothing."""
LESS_SURE: Final = 0.07**4
"""Rows that are less sure than usual by its fourth root are half put down to shift."""
Rule = Literal["total", "each", "each, known mix"]
"""How surplus rows are priced: those of all classes together, or of each class by itself, where
its rows may be what they seem unless the class mix is known."""
# Numbers looked at together while a window fills.
_TOGETHER: Final = 1 << 18


def class_terms(
    counts: FloatArray,
    sure: FloatArray,
    expected: FloatArray,
    usual: FloatArray,
    rule: Rule = "total",
    unit: FloatArray | float = 1.0,
) -> FloatArray:
    """Return what each class adds to five sums over a window, of shape (5, ...).

    Parameters
    ----------
    counts, sure
        c: how many rows were predicted as each class; s: the sum of their confidences.
    expected
        d: how many there would be among as many clean rows.
    usual
        u: the mean confidence of clean rows that are predicted so.
    rule
        Whether the price is that below, or that of `class_price`.
    unit
        What one row counts in the numbers above: 1, or 1 / n where they are shares of n rows.

    Returns
    -------
    surplus
        max(0, c - d). Over all classes this is n times the total variation.
    price
        The confidence it costs to move surplus rows out. They lead by μ = 2 s / c - 1 on average
        over the next class; if leads are spread as u^(1/μ - 1) over u in (0, 1), the part x =
        surplus / c with the smallest lead loses c ∫_0^x u^(1/μ - 1) du = c μ x^(1/μ). To that comes
        max(0, s - d): more confidence than there are rows to expect is too much in any case.
    fallen
        surplus (u - s / c): how much less sure the surplus rows are than usual.
    scarce, fallen_scarce
        c where fewer came than expected, and how much less sure those rows are: c u - s.

    Examples
    --------
    >>> two = np.array([4.0, 0.0]), np.array([3.0, 0.0]), np.array([2.0, 2.0]), np.array([0.9, 0.9])
    >>> print(class_terms(*two)[:, 0].round(6))
    [2.  1.5 0.3 0.  0. ]
    """
    rows = np.maximum(counts, 1e-12)
    surplus = np.maximum(counts - expected, 0.0)
    lead = np.clip(2 * sure / rows - 1, LEAST_LEAD, 1.0)
    if rule == "total":
        price = counts * lead * (surplus / rows) ** (1 / lead) + np.maximum(sure - expected, 0.0)
    else:
        price = class_price(counts, sure, expected, usual, known_mix=rule != "each", unit=unit)
    fallen = surplus * (usual - sure / rows)
    scarce = np.where(counts < expected, counts, 0.0)
    less = np.where(counts < expected, counts * usual - sure, 0.0)
    return np.stack([surplus, price, fallen, scarce, less])


def class_price(
    counts: FloatArray,
    sure: FloatArray,
    expected: FloatArray,
    usual: FloatArray,
    *,
    known_mix: bool = False,
    unit: FloatArray | float = 1.0,
) -> FloatArray:
    """Return what the surplus rows of each class cost, each class judged by itself.

    With many classes the sum over all of them is mostly chance. A class by itself has a surplus of
    √((c - d)² - 4 (d + 3/2)) where c > d: two standard deviations are chance, and so are a row or
    two of a class that is hardly expected. It costs what `class_terms` says, the confidence beyond
    what is expected at most as much as there is surplus. Rows that are as sure as usual may be what
    they seem: they are less sure by D = u - s / c, and the price counts D⁴ / (D⁴ + 0.07⁴), unless
    the class mix is known. Parameters as there.

    Examples
    --------
    >>> c, s, d, u = (np.array([x]) for x in (40.0, 24.0, 10.0, 0.9))
    >>> print(class_price(c, s, d, u).round(3), class_price(c, s, d, u, known_mix=True).round(3))
    [15.619] [15.665]
    >>> print(class_price(c, np.array([36.0]), d, u))  # as sure as ever
    [0.]
    """
    rows = np.maximum(counts, 1e-12)
    over = np.maximum(counts - expected, 0.0)
    surplus = np.sqrt(np.maximum(over * over - CHANCE * (expected + FEW * unit) * unit, 0.0))
    each = sure / rows
    lead = np.clip(2 * each - 1, LEAST_LEAD, 1.0)
    price = counts * lead * (surplus / rows) ** (1 / lead)
    price = price + np.clip(sure - expected, 0.0, surplus)
    if not known_mix:
        fourth = np.square(np.square(np.maximum(usual - each, 0.0)))
        price = price * (fourth / (fourth + LESS_SURE))
    return np.asarray(price)


@dataclass(frozen=True, slots=True, eq=False)
class CleanClasses:
    """What the predicted classes of clean rows are like, to which those of windows are compared."""

    shares: FloatArray
    """How often each is predicted, as whole numbers in parts of 2^-30."""
    usual: FloatArray
    """The mean confidence in each."""
    rule: Rule = "total"

    @classmethod
    def of(cls, shares: FloatArray, usual: FloatArray, rule: Rule = "total") -> "CleanClasses":
        """Return the same of shares that sum to one."""
        return cls(np.rint(shares * SHARE_UNIT), usual, rule)

    def numbers(self, counts: Labels | FloatArray, sure: FloatArray) -> FloatArray:
        """Return the five sums of a window in parts of 2^-30; `sure` is Σ confidence by class."""
        c = np.asarray(counts, np.float64)
        return np.asarray(self._whole(c, sure, c.sum() * self.shares, self.usual).sum(axis=1))

    def rolling_numbers(
        self, counts: Labels, sure: NDArray[np.int64], entering: ClassRows, leaving: ClassRows
    ) -> FloatArray:
        """Return the same after each entering row, shape (5, n).

        Parameters
        ----------
        counts, sure
            Of the window at the beginning, confidences in units of 2^-40.
        entering, leaving
            Rows in order. The last len(leaving) entering rows each push one row out, just before
            they enter; the window was not full before.
        """
        free, k = len(entering.pred) - len(leaving.pred), len(counts)
        parts, step = [], max(1, _TOGETHER // k)
        for start in range(0, free, step):
            # While the window fills, every new row changes what is expected of all classes.
            rows = ClassRows(*(of[start : min(start + step, free)] for of in entering))
            here = rows.pred[:, None] == np.arange(k)
            each = counts + np.cumsum(here, axis=0)
            inside = sure + np.cumsum(np.where(here, rows.sure[:, None], 0), axis=0)
            expected = each.sum(axis=1, keepdims=True) * self.shares
            whole = self._whole(each.astype(np.float64), _real(inside), expected, self.usual)
            parts.append(whole.sum(axis=-1))
            counts, sure = each[-1], inside[-1]
        if len(leaving.pred):
            coming = ClassRows(*(of[free:] for of in entering))
            moves = Moves(counts, coming.pred, leaving.pred)
            change = moves.in_order(coming.sure, -leaving.sure)
            inside = moves.just_before(sure, change)
            expected = float(counts.sum()) * self.shares[moves.classes]
            usual = self.usual[moves.classes]
            now, then = (
                self._whole(c.astype(np.float64), _real(s), expected, usual)
                for c, s in (
                    (moves.before, inside),
                    (moves.before + moves.signs, inside + change),
                )
            )
            moved = np.cumsum(then - now, axis=1)[:, moves.entering]
            parts.append(self.numbers(counts, _real(sure))[:, None] + moved)
        return np.concatenate(parts, axis=1)

    def _whole(
        self, counts: FloatArray, sure: FloatArray, expected: FloatArray, usual: FloatArray
    ) -> FloatArray:
        return np.asarray(
            np.rint(class_terms(counts, sure, expected / SHARE_UNIT, usual, self.rule) * SHARE_UNIT)
        )


def usual_confidence(shares: FloatArray, inside: FloatArray) -> FloatArray:
    """Return the mean confidence of clean rows in each class, that of all where none was seen.

    `inside` is the part of their mean confidence that rows of each class have.
    """
    seen = np.maximum(shares, 1e-300)
    return np.asarray(np.where(shares > 0, np.clip(inside / seen, 0.0, 1.0), inside.sum()))


def _real(sure: NDArray[np.int64]) -> FloatArray:
    return np.asarray(sure * UNIT, np.float64)
