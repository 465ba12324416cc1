"""How far the mean confidence of a window lies above its accuracy, from what its rows say."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.calibrators.context.belief import BELIEFS, FEW_CLASSES, Belief
from wildcal._old.calibrators.context.terms import Rule
from wildcal._old.core.arrays import FloatArray

WARMER: Final = (0.0, 0.4, 0.9)
"""The confidence of each row is kept at these log temperatures beyond its own."""
PRIOR_ROWS: Final = 2.0
"""A fall of confidence is believed n / (n + this)."""
PRIOR_FALL: Final = 0.04
"""What these rows would show: a window of a row or two may well be shifted."""
RISING_ROWS: Final = 20.0
"""A rise of confidence is believed n / (n + this): sure rows come under shift too."""
CHANCE_SPREAD: Final = 0.6
RESOLVED: Final = 0.5
"""Where chance alone gives this variation, class counts are believed half, and soon not at all."""
COUNTED_ROWS: Final = 100.0
"""A count of unsure rows is believed n / (n + this): it varies more than the signs do."""
OFFSETS: Final = (-1.0, 2.5)
TINY: Final = 1e-30
SMALL: Final = 1e-12


@dataclass(frozen=True, slots=True)
class GapModel:
    """Three slopes that environments teach, and what is the same for all of so many classes.

    The signs tell a gap of r (β_P P + β_2 G²) + (1 - r) β_G G': see `WindowStatistics`. With many
    classes, each of which is judged by itself, β_P P + β_2 G² + β_G G'. A second opinion counts
    unsure rows, U + β_H H, H as far as another class mix is not suspected. The estimate is a mean
    of both, in which the second has the weight h n / (n + 100): of few rows the signs know more.
    """

    beta_p: float
    beta_2: float
    beta_g: float
    lam: float
    """The variation of class shares that usually comes with a fall of confidence by 1."""
    other_mixes: bool = True
    """Whether classes that moved further than usual may be another class mix."""
    belief: Belief = BELIEFS[FEW_CLASSES]
    beta_h: float = 1.0
    """Of hidden rows: fewer than one row a class tell nothing of them."""
    counted: float = 0.5
    """h."""

    def alike(self) -> float:
        """Return how much less sure surplus rows must be, whatever the others are."""
        return self.belief.alike_least + self.belief.alike_moved / max(self.lam, SMALL)

    def numbers(self) -> tuple[float, float, float, float, float, float]:
        """Return the three slopes of the signs, λ, β_H and h."""
        return self.beta_p, self.beta_2, self.beta_g, self.lam, self.beta_h, self.counted

    @property
    def rule(self) -> Rule:
        """How surplus rows are priced."""
        if not self.belief.each_class:
            return "total"
        return "each" if self.other_mixes else "each, known mix"

    def gap(self, seen: "WindowStatistics") -> FloatArray:
        """Return the estimated mean confidence minus accuracy of each window."""
        fallen = np.maximum(seen.fall, 0.0)
        gap = self.beta_p * seen.price + self.beta_2 * fallen * fallen
        if self.belief.each_class:
            gap = gap + self.beta_g * seen.warm_fall
        else:
            r = self.belief_in_classes(seen)
            gap = r * gap + (1 - r) * self.beta_g * seen.warm_fall
        if self.belief.counts_unsure:
            gap = gap + self.weight_of_counts(seen) * (self.second(seen) - gap)
        return np.asarray(np.minimum(gap, seen.most) if self.belief.above_guessing else gap)

    def columns(self, seen: "WindowStatistics") -> FloatArray:
        """Return what the three slopes belong to, shape (3, windows)."""
        fall, signs = np.maximum(seen.fall, 0.0), 1 - self.weight_of_counts(seen)
        if self.belief.each_class:
            columns = [seen.price, np.zeros_like(fall), seen.warm_fall]
        else:
            r = self.belief_in_classes(seen)
            columns = [r * seen.price, r * fall * fall, (1 - r) * seen.warm_fall]
        return np.asarray(signs * np.stack(columns))

    def not_learned(self, seen: "WindowStatistics") -> FloatArray:
        """Return the part of the gap that environments do not teach.

        That is the second opinion, and of many classes β_2 G²: a few environments, most of which
        leave a network right more often than not, say little of it.
        """
        fall, counts = np.maximum(seen.fall, 0.0), self.weight_of_counts(seen)
        beta_2 = self.beta_2 if self.belief.each_class else 0.0
        return np.asarray((1 - counts) * beta_2 * fall * fall + counts * self.second(seen))

    def weight_of_counts(self, seen: "WindowStatistics") -> FloatArray:
        """Return what the second opinion weighs, where there is one."""
        most = self.counted if self.belief.counts_unsure else 0.0
        return np.asarray(most / (1 + COUNTED_ROWS / seen.n))

    def second(self, seen: "WindowStatistics") -> FloatArray:
        """Return the gap that unsure rows tell."""
        hidden = self.beta_h * seen.hidden
        if not self.belief.each_class:
            other, few = self._other_mix_and_chance(seen)
            hidden = hidden * (other / few)
        return np.asarray(seen.unsure + hidden)

    def belief_in_classes(self, seen: "WindowStatistics") -> FloatArray:
        """Return r: how much the class counts are believed to speak of one shift.

        Little where they moved further than such a fall of confidence explains and the classes
        that grew stayed sure, which is another class mix: then few rows are wrong there; unless no
        other mix is to be expected. Little where they moved far less, which is a mixture of
        conditions; and little where there are too few rows for so many classes.
        """
        usual, spread = self._usual_and_spread(seen)
        moved = seen.variation * seen.variation + spread
        mixed = np.square(self.belief.mixed * usual)
        if self.belief.sharp:
            moved, mixed = moved * moved, mixed * mixed
        one = moved / np.maximum(moved + mixed, TINY)
        other, few = self._other_mix_and_chance(seen)
        return np.asarray(other * one / few)

    def _other_mix_and_chance(self, seen: "WindowStatistics") -> tuple[FloatArray, FloatArray]:
        """Return the first factor of r, and what r is divided by where there are too few rows."""
        at = self.belief
        usual, spread = self._usual_and_spread(seen)
        beyond = np.maximum(seen.variation - at.explained * usual, 0.0)
        width = at.usual * usual + at.allowed + at.by_chance * np.sqrt(spread)
        like = seen.fall_grown / (at.alike * seen.fall_shrunk + self.alike())
        mix = _fourth(beyond / width / (1 + _fourth(like)))
        few = _fourth(seen.chance / RESOLVED)
        few = few * few if at.sharp else few
        mix = mix if self.other_mixes else np.zeros_like(mix)
        return np.exp(-mix), 1 + few

    def _usual_and_spread(self, seen: "WindowStatistics") -> tuple[FloatArray, FloatArray]:
        """Return the change of classes that usually comes with such a fall, and that of chance."""
        usual = self.lam * np.maximum(seen.fall, 0.0)
        return usual, CHANCE_SPREAD * seen.chance / np.sqrt(seen.n)


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """What windows say: one number of each kind for each window."""

    n: FloatArray
    fall: FloatArray
    """G: how far mean confidence has fallen from that of clean rows, as far as n rows tell."""
    warm_fall: FloatArray
    """G': the same when warmer, which fewer rows tell as well."""
    variation: FloatArray
    """V: how far the predicted classes moved beyond chance, as total variation."""
    chance: FloatArray
    """t(n)."""
    price: FloatArray
    """P: the confidence it costs to move surplus rows out of classes that have too many."""
    fall_grown: FloatArray
    """How much less sure than usual the surplus rows are, at least 0."""
    fall_shrunk: FloatArray
    """The same of rows in classes that have too few."""
    unsure: FloatArray
    """U: how far mean confidence lies above the share of rows that are not unsure, beyond that of
    clean rows, of which as many are unsure as are wrong."""
    hidden: FloatArray
    """H: the share of rows too many of their class that are sure of it."""
    most: FloatArray
    """How far mean confidence lies above the accuracy of guessing, at least 0."""


def window_statistics(
    n: ArrayLike,
    confidence: tuple[ArrayLike, ArrayLike],
    terms: ArrayLike,
    chance: ArrayLike,
    clean: tuple[float, float, float],
    n_classes: int,
    rule: Rule = "total",
) -> WindowStatistics:
    """Return what windows of n > 0 rows say.

    `confidence` is their mean confidence, and the one at which the fall alone is read; `clean`
    are those of clean rows, and which share of them is unsure. `terms` are the sums of
    `class_terms` per row of the window: how far the class shares moved, of which `chance` is usual,
    what that costs, chance included, how sure rows are where they moved, and how many are unsure.
    """
    moved, price, grown, scarce, shrunk, unsure, hidden = np.asarray(terms, np.float64)
    n, chance = np.asarray(n, np.float64), np.asarray(chance, np.float64)
    *usually, clean_unsure = clean
    now = [np.asarray(of, np.float64) for of in confidence]
    fall, warm_fall = (_fall(n, usual, of) for usual, of in zip(usually, now, strict=True))
    beyond = np.sqrt(np.maximum(moved * moved - chance * chance, 0.0))
    # Classes that are judged one by one have chance taken off already.
    part = beyond / np.maximum(moved, TINY) if rule == "total" else np.ones_like(beyond)
    return WindowStatistics(
        n,
        fall,
        warm_fall,
        beyond,
        chance,
        price * (part * part * part),
        np.maximum(grown, 0.0) / np.maximum(moved, TINY),
        np.maximum(shrunk, 0.0) / np.maximum(scarce, TINY),
        np.asarray((now[0] - usually[0]) + (unsure - clean_unsure)),
        hidden,
        np.maximum(now[0] - 1 / n_classes, 0.0),
    )


def _fall(n: FloatArray, clean: float, confidence: ArrayLike) -> FloatArray:
    """Return how far confidence has fallen, as far as it is believed."""
    fall = clean - np.asarray(confidence, np.float64)
    known = 1 / (1 + np.where(fall < 0, RISING_ROWS, PRIOR_ROWS) / n)
    return np.asarray(known * fall + PRIOR_FALL * PRIOR_ROWS / (n + PRIOR_ROWS))


def curve(means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return s and q of the parabola c(a) = c0 - s a + q a² through the three confidences."""
    c0, c1, c2 = means
    _, a1, a2 = WARMER
    first, second = (c1 - c0) / a1, (c2 - c0) / a2
    q = (second - first) / (a2 - a1)
    return np.asarray(-(first - a1 * q)), np.asarray(q)


def offset_for(gap: FloatArray, means: FloatArray) -> FloatArray:
    """Return the log temperature a that takes `gap` off the mean confidence: s a - q a² = gap.

    On the falling side of the parabola, at most at its lowest or highest point, and within limits;
    0 where it does not fall at first, as for a single row that is very sure.
    """
    s, q = curve(means)
    s = np.maximum(s, 0.0)
    lowest, highest = s * s / np.maximum(4 * q, TINY), s * s / np.minimum(4 * q, -TINY)
    within = np.minimum(np.maximum(gap, highest), lowest)
    root = np.sqrt(np.maximum(s * s - 4 * q * within, 0.0))
    return np.asarray(np.clip(2 * within / np.maximum(s + root, SMALL), *OFFSETS))


def _fourth(x: FloatArray) -> FloatArray:
    """Return x⁴, within what floats hold."""
    square = np.square(np.minimum(x, 1e6))
    return np.asarray(square * square)
