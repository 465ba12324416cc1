"""What the classes of a window add to its signs of shift, class by class.

Every number is rounded to a whole one, and so exact in any order of rows: the same bits however
they came.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from wildcal._old.calibrators.context.classes import ClassRows, Moves
from wildcal._old.core.arrays import FloatArray, Labels

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
    unsure: FloatArray,
    expected: FloatArray,
    usual: FloatArray,
    rule: Rule = "total",
    unit: FloatArray | float = 1.0,
) -> FloatArray:
    """Return what each class adds to seven sums over a window, of shape (7, ...).

    Parameters
    ----------
    counts, sure, unsure
        c: how many rows were predicted as each class; s: the sum of their confidences; b: how many
        of them are unsure.
    expected
        d: how many there would be among as many clean rows.
    usual
        u: the mean confidence of clean rows that are predicted so.
    rule
        How the price is reckoned, and whether hidden rows may be what they seem: with "each" and
        "each, known mix" the surplus is that of `beyond_chance` and the confidence beyond what is
        expected counts at most as much; with "each" both count `put_down_to_shift` alone.
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
    unsure
        b.
    hidden
        The surplus beyond chance that the unsure rows do not account for, `beyond_chance` minus b:
        rows too many of a class that are sure of it. With a rule for each class, as far as they are
        less sure than usual, or all of it where the mix is known.

    Examples
    --------
    >>> c, s, b, d, u = (np.array([x]) for x in (40.0, 24.0, 8.0, 10.0, 0.9))
    >>> print(class_terms(c, s, b, d, u)[:, 0].round(3))
    [30.    15.898  9.     0.     0.     8.    21.223]
    """
    rows = np.maximum(counts, 1e-12)
    surplus, each = np.maximum(counts - expected, 0.0), sure / rows
    beyond = beyond_chance(counts, expected, unit)
    lead = np.clip(2 * each - 1, LEAST_LEAD, 1.0)
    hidden = np.maximum(beyond - unsure, 0.0)
    if rule == "total":
        price = counts * lead * (surplus / rows) ** (1 / lead) + np.maximum(sure - expected, 0.0)
    else:
        # The confidence beyond what is expected counts at most as much as there is surplus.
        price = counts * lead * (beyond / rows) ** (1 / lead)
        price = price + np.clip(sure - expected, 0.0, beyond)
    if rule == "each":
        shift = put_down_to_shift(usual - each)
        price, hidden = price * shift, hidden * shift
    fallen = surplus * (usual - each)
    scarce = np.where(counts < expected, counts, 0.0)
    less = np.where(counts < expected, counts * usual - sure, 0.0)
    return np.stack([surplus, price, fallen, scarce, less, unsure, hidden])


def beyond_chance(
    counts: FloatArray, expected: FloatArray, unit: FloatArray | float = 1.0
) -> FloatArray:
    """Return by how many rows each class has too many: √((c - d)² - 4 (d + 3/2)) where c > d.

    Two standard deviations are chance, and so are a row or two of a class that is hardly expected.

    >>> print(beyond_chance(np.array([40.0, 12.0]), np.array([10.0, 10.0])).round(3))
    [29.223  0.   ]
    """
    over = np.maximum(counts - expected, 0.0)
    square = over * over - CHANCE * (expected + FEW * unit) * unit
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def put_down_to_shift(less: FloatArray) -> FloatArray:
    """Return how far surplus rows are put down to shift: D⁴ / (D⁴ + 0.07⁴), D how much less sure.

    Rows that are as sure as usual may be what they seem.

    >>> print(put_down_to_shift(np.array([-0.1, 0.07, 0.3])).round(3))
    [0.    0.5   0.997]
    """
    fourth = np.square(np.square(np.maximum(less, 0.0)))
    return np.asarray(fourth / (fourth + LESS_SURE))


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

    def numbers(self, counts: Labels | FloatArray, inside: FloatArray) -> FloatArray:
        """Return the seven sums of a window in parts of 2^-30.

        `inside` are the sums of confidence by class, and below them how many rows are unsure, or no
        rows for a form that does not count these.
        """
        c = np.asarray(counts, np.float64)
        whole = self._whole(c, inside, c.sum() * self.shares, self.usual)
        return np.asarray(whole.sum(axis=1))

    def rolling_numbers(
        self, counts: Labels, inside: NDArray[np.int64], entering: ClassRows, leaving: ClassRows
    ) -> FloatArray:
        """Return the same after each entering row, shape (7, n).

        Parameters
        ----------
        counts, inside
            Of the window at the beginning, sums in units of 2^-40.
        entering, leaving
            Rows in order. The last len(leaving) entering rows each push one row out, just before
            they enter; the window was not full before.
        """
        free, k = len(entering.pred) - len(leaving.pred), len(counts)
        parts, step = [], max(1, _TOGETHER // k)
        for start in range(0, free, step):
            # While the window fills, every new row changes what is expected of all classes.
            rows = entering[start : min(start + step, free)]
            here = rows.pred[:, None] == np.arange(k)
            each = counts + np.cumsum(here, axis=0)
            change = np.where(here, rows.inside[:, :, None], 0)
            sums = inside[:, None] + np.cumsum(change, axis=1)
            expected = each.sum(axis=1, keepdims=True) * self.shares
            whole = self._whole(each.astype(np.float64), _real(sums), expected, self.usual)
            parts.append(whole.sum(axis=-1))
            counts, inside = each[-1], sums[:, -1]
        if len(leaving.pred):
            coming = entering[free:]
            moves = Moves(counts, coming.pred, leaving.pred)
            change = np.stack(
                [moves.in_order(*of) for of in zip(coming.inside, -leaving.inside, strict=True)]
            )
            sums = np.stack([moves.just_before(*of) for of in zip(inside, change, strict=True)])
            expected = float(counts.sum()) * self.shares[moves.classes]
            usual = self.usual[moves.classes]
            now, then = (
                self._whole(c.astype(np.float64), _real(s), expected, usual)
                for c, s in ((moves.before, sums), (moves.before + moves.signs, sums + change))
            )
            moved = np.cumsum(then - now, axis=1)[:, moves.entering]
            parts.append(self.numbers(counts, _real(inside))[:, None] + moved)
        return np.concatenate(parts, axis=1)

    def _whole(
        self, counts: FloatArray, inside: FloatArray, expected: FloatArray, usual: FloatArray
    ) -> FloatArray:
        sure, unsure = inside if len(inside) > 1 else (inside[0], np.zeros_like(inside[0]))
        terms = class_terms(counts, sure, unsure, expected / SHARE_UNIT, usual, self.rule)
        return np.asarray(np.rint(terms * SHARE_UNIT))


def usual_confidence(shares: FloatArray, inside: FloatArray) -> FloatArray:
    """Return the mean confidence of clean rows in each class, that of all where none was seen.

    `inside` is the part of their mean confidence that rows of each class have.
    """
    seen = np.maximum(shares, 1e-300)
    return np.asarray(np.where(shares > 0, np.clip(inside / seen, 0.0, 1.0), inside.sum()))


def _real(inside: NDArray[np.int64]) -> FloatArray:
    return np.asarray(inside * UNIT, np.float64)
