"""Context scaling of one row after another: the bits of the general path, in a few calls.

A stream or a service sees rows one by one, and NumPy costs a microsecond for each of hundreds of
calls on arrays of length one. Here numbers are plain floats. Sums, products and roots have the same
bits either way; exponentials and powers are still asked of NumPy, which has its own.
"""

from math import isfinite, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wildcal._old.calibrators.context import gap
from wildcal._old.calibrators.context.chance import ChanceTable
from wildcal._old.calibrators.context.features import LARGEST
from wildcal._old.calibrators.context.shape import STEEPENING, Shape
from wildcal._old.calibrators.context.terms import (
    CHANCE,
    FEW,
    LEAST_LEAD,
    LESS_SURE,
    SHARE_UNIT,
    UNIT,
    CleanClasses,
)
from wildcal._old.calibrators.context.unsure import WIDTH
from wildcal._old.core.arrays import Labels, Logits, working_dtype
from wildcal._old.core.checks import reject_logit_row
from wildcal._old.core.one_row import row_sums

Numbers = tuple[float, ...]
"""The seven sums over the classes of a window, whole numbers in parts of 2^-30."""
_NOTHING: Final = (0.0,) * 7


class RowLook(NamedTuple):
    """What is seen of one row."""

    shifted: Logits
    """Its logits minus the largest."""
    features: list[float]
    """Confidence at three temperatures, and whether it is unsure, where that is counted."""
    pred: int
    own: float
    """Its margin, in units of clean rows."""


class InClass(NamedTuple):
    """A row that comes or goes, and what the window had of its class; sums in units of 2^-40."""

    of: int
    """The class."""
    rows: int
    """How many rows the window had of it."""
    inside: list[int]
    """Sums over these: of confidence, and of how many are unsure."""
    own: list[int]
    """The same of the row itself."""


class OneRow:
    """What a fitted `ContextScaling` says of one row and its window."""

    def __init__(
        self,
        shape: Shape,
        model: gap.GapModel,
        classes: CleanClasses,
        clean: tuple[float, float, float],
        read_at: int,
        border: float | None,
        chance: ChanceTable,
        units: tuple[tuple[int, float, float], ...],
    ) -> None:
        self.units = units
        """Which features drift is judged by, and their mean and spread on clean rows."""
        self._shape, self._model, self._clean, self._chance = shape, model, clean, chance
        self._read_at, self._border = read_at, border
        self._of_all: float | None = None
        """The temperature of clean rows, where it is the same for all."""
        if not shape.weight:
            self._of_all = self._clean_temperature(0.0)
        self._classes, self._guessing = classes, 1 / classes.shares.size
        self._share_of: list[float] = classes.shares.tolist()
        self._usual: list[float] = classes.usual.tolist()
        self._known_chance: tuple[int, float] = (0, 0.0)

    def look(self, z: Logits, i: int) -> RowLook:
        """Look at row i of a matrix; `row_statistics` does it for all."""
        row, dtype, shape = z[i], working_dtype(z.dtype), self._shape
        if row.dtype != dtype or not row.flags.c_contiguous:
            row = np.ascontiguousarray(row, dtype)
        pred = int(row.argmax())  # NaN wins
        top = row[pred]
        if not isfinite(top):
            reject_logit_row(i, z[i])
        with np.errstate(over="ignore", invalid="ignore"):
            shifted = row - top
            others = shifted.copy()
            others[pred] = -np.inf
            m = (float(-others.max()) - shape.mean) / shape.std
            own = min(max(m, -LARGEST), LARGEST)
            betas = np.array([1.0 / self.temperature(own, a) for a in gap.WARMER])
            e = betas.astype(dtype)[:, None] * shifted
            sums = row_sums(np.exp(e, out=e)).tolist()
        features = [min(1.0 / total, 1.0) for total in sums]
        if self._border is not None:
            part = (self._border - features[-1]) / WIDTH + 0.5
            features.append(min(max(part, 0.0), 1.0))
        return RowLook(shifted, features, pred, own)

    def temperature(self, own: float, offset: float) -> float:
        """Return the temperature of a row in its window."""
        steep = self._shape.steepest * (1.0 - float(np.exp(-STEEPENING * max(offset, 0.0))))
        return self._bounded(self._clean_temperature(own) * float(np.exp(offset - steep * own)))

    def _clean_temperature(self, own: float) -> float:
        if self._of_all is not None:
            return self._of_all
        shape = self._shape
        return shape.temperature * float(np.logaddexp(0.0, shape.bias - shape.weight * own))

    def confidence(self, shifted: Logits, temperature: float) -> float:
        """Return the confidence of a row at a temperature."""
        with np.errstate(over="ignore", invalid="ignore"):
            e = shifted * shifted.dtype.type(1.0 / temperature)
            total = float(row_sums(np.exp(e, out=e)[None])[0])
        return min(1.0 / total, 1.0)

    def numbers(self, counts: Labels, inside: NDArray[np.int64]) -> Numbers:
        """Return what is read off the classes of a window, by looking at all of them."""
        sums = np.asarray(inside * UNIT, np.float64)
        return tuple(self._classes.numbers(counts, sums).tolist())

    def exchanged(
        self,
        now: Numbers,
        n: int,
        leaving: InClass,
        entering: InClass,
    ) -> Numbers:
        """Return the same after a row of one class has left a full window, and one has come.

        Parameters
        ----------
        now, n
            The numbers before, and the rows in the window.
        leaving, entering
            Either row, and its class before any of the two moved.
        """
        out, come = leaving.own, entering.own
        if leaving.of == entering.of:
            moves = [(leaving, 0, [b - a for a, b in zip(out, come, strict=True)])]
        else:
            moves = [(leaving, -1, [-a for a in out]), (entering, 1, come)]
        for at, more, change in moves:
            after = [a + b for a, b in zip(at.inside, change, strict=True)]
            was = self._terms(n, at.of, at.rows, at.inside)
            then = self._terms(n, at.of, at.rows + more, after)
            now = tuple(x + (b - a) for x, a, b in zip(now, was, then, strict=True))
        return now

    def offset(self, n: int, means: list[float], numbers: Numbers) -> float:
        """Return the log temperature a of one window; `window_offset` does it for many."""
        terms = [number / (n * SHARE_UNIT) for number in numbers]
        c0, c1, c2 = (min(max(mean, 0.0), 1.0) for mean in means[: len(gap.WARMER)])
        warm = (c0, c1, c2)[self._read_at]
        return _offset_for(self._gap(n, c0, warm, terms), c0, c1, c2)

    def _gap(self, n: int, sure: float, warm: float, terms: list[float]) -> float:
        moved, price, grown, scarce, shrunk, unsure, hidden = terms
        model, at, warm_fall = self._model, self._model.belief, _fall(n, self._clean[1], warm)
        fallen = max(_fall(n, self._clean[0], sure), 0.0)
        hidden *= model.beta_h
        if at.each_class:
            found = model.beta_p * price + model.beta_2 * fallen * fallen
            found += model.beta_g * warm_fall
            return self._with_second(n, sure, found, unsure, hidden)
        chance = self._chance_of(n)
        variation = sqrt(max(moved * moved - chance * chance, 0.0))
        part = variation / max(moved, gap.TINY)
        paid = price * (part * part * part)
        usual = model.lam * fallen
        spread = gap.CHANCE_SPREAD * chance / sqrt(n)
        width = at.usual * usual + at.allowed + at.by_chance * sqrt(spread)
        fall_grown = max(grown, 0.0) / max(moved, gap.TINY)
        fall_shrunk = max(shrunk, 0.0) / max(scarce, gap.TINY)
        like = fall_grown / (at.alike * fall_shrunk + model.alike())
        beyond = max(variation - at.explained * usual, 0.0)
        mix = _fourth(beyond / width / (1 + _fourth(like)))
        few, square = _fourth(chance / gap.RESOLVED), variation * variation + spread
        mixed = (at.mixed * usual) * (at.mixed * usual)
        if at.sharp:
            few, square, mixed = few * few, square * square, mixed * mixed
        one = square / max(square + mixed, gap.TINY)
        mix = mix if model.other_mixes else 0.0
        other = float(np.exp(-mix))
        r = other * one / (1 + few)
        best = model.beta_p * paid + model.beta_2 * fallen * fallen
        found = r * best + (1 - r) * model.beta_g * warm_fall
        return self._with_second(n, sure, found, unsure, hidden * (other / (1 + few)))

    def _with_second(
        self, n: int, sure: float, found: float, unsure: float, hidden: float
    ) -> float:
        """Return the gap that both opinions tell; `GapModel.gap` does it for many."""
        at = self._model.belief
        if at.counts_unsure:
            second = (sure - self._clean[0]) + (unsure - self._clean[2]) + hidden
            found += self._model.counted / (1 + gap.COUNTED_ROWS / n) * (second - found)
        return min(found, max(sure - self._guessing, 0.0)) if at.above_guessing else found

    def _chance_of(self, n: int) -> float:
        if self._known_chance[0] != n:  # a full window has always the same size
            self._known_chance = (n, float(self._chance(n)))
        return self._known_chance[1]

    def _bounded(self, temperature: float) -> float:
        low, high = self._shape.bounds
        return min(max(temperature, low), high)

    def _terms(self, n: int, of: int, count: int, inside: list[int]) -> Numbers:
        """Return what one class adds; `class_terms` does it for all."""
        if count == 0:
            return _NOTHING
        expected, usual = n * self._share_of[of] / SHARE_UNIT, self._usual[of]
        held, unsure = inside[0] * UNIT, inside[1] * UNIT if len(inside) > 1 else 0.0
        rule = self._classes.rule
        if count < expected:
            beyond = max(held - expected, 0.0) if rule == "total" else 0.0
            terms = (0.0, beyond, 0.0, float(count), count * usual - held, unsure, 0.0)
        else:
            surplus, each = count - expected, held / count
            lead = min(max(2 * each - 1, LEAST_LEAD), 1.0)
            beyond = sqrt(max(surplus * surplus - CHANCE * (expected + FEW), 0.0))
            hidden = max(beyond - unsure, 0.0)
            if rule == "total":
                price = count * lead * _power(surplus / count, 1 / lead)
                price += max(held - expected, 0.0)
            elif beyond:  # mostly there is nothing, and no need for a power, which is slow
                price = count * lead * _power(beyond / count, 1 / lead)
                price += min(max(held - expected, 0.0), beyond)
            else:
                price = 0.0
            if rule == "each":
                less = max(usual - each, 0.0)
                fourth = (less * less) * (less * less)
                shift = fourth / (fourth + LESS_SURE)
                price, hidden = price * shift, hidden * shift
            terms = (surplus, price, surplus * (usual - each), 0.0, 0.0, unsure, hidden)
        return tuple(float(round(term * SHARE_UNIT)) for term in terms)


def _power(base: float, exponent: float) -> float:
    found: Any = np.power(base, exponent)
    return float(found)


def _fall(n: int, clean: float, sure: float) -> float:
    fall = clean - sure
    known = 1 / (1 + (gap.RISING_ROWS if fall < 0 else gap.PRIOR_ROWS) / n)
    return known * fall + gap.PRIOR_FALL * gap.PRIOR_ROWS / (n + gap.PRIOR_ROWS)


def _offset_for(wanted: float, c0: float, c1: float, c2: float) -> float:
    """Return what `gap.offset_for` does, of one window."""
    _, a1, a2 = gap.WARMER
    first, second = (c1 - c0) / a1, (c2 - c0) / a2
    q = (second - first) / (a2 - a1)
    s = max(-(first - a1 * q), 0.0)
    lowest, highest = s * s / max(4 * q, gap.TINY), s * s / min(4 * q, -gap.TINY)
    within = min(max(wanted, highest), lowest)
    root = sqrt(max(s * s - 4 * q * within, 0.0))
    low, high = gap.OFFSETS
    return min(max(2 * within / max(s + root, gap.SMALL), low), high)


def _fourth(x: float) -> float:
    square = min(x, 1e6) * min(x, 1e6)
    return square * square
