"""How far the mean confidence of a window lies above its accuracy, from what its rows say."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import FloatArray

WARMER: Final = (0.0, 0.4, 0.9)
"""The confidence of each row is kept at these log temperatures beyond its own."""
PRIOR_ROWS: Final = 2.0
"""A fall of confidence is believed n / (n + this)."""
PRIOR_FALL: Final = 0.04
"""What these rows would show: a window of a row or two may well be shifted."""
RISING_ROWS: Final = 20.0
"""A rise of confidence is believed n / (n + this): sure rows come under shift too."""
# How much more variation than usual is still put down to shift: relative, absolute, by chance.
USUAL: Final = 0.3
ALLOWED: Final = 0.05
BY_CHANCE: Final = 0.5
CHANCE_SPREAD: Final = 0.6
RESOLVED: Final = 0.5
"""Where chance alone gives this variation, class counts are believed half, and soon not at all."""
MIXED: Final = 0.8
"""Where classes moved by this part of what is usual, they are believed half: such a window may be
a mixture of conditions, in which they cancel."""
# Where rows of the classes that grew became less sure by this part of what those of the others did,
# and by this much, the growth is half put down to shift, however large.
ALIKE: Final = 0.6
ALIKE_LEAST: Final = 0.05
OFFSETS: Final = (-1.0, 2.5)
TINY: Final = 1e-30
SMALL: Final = 1e-12


@dataclass(frozen=True, slots=True)
class GapModel:
    """The four numbers that environments teach.

    Estimated gap = r (β_P P + β_2 G²) + (1 - r) β_G G': see `WindowStatistics`.
    """

    beta_p: float
    beta_2: float
    beta_g: float
    lam: float
    """The variation of class shares that usually comes with a fall of confidence by 1."""
    other_mixes: bool = True
    """Whether classes that moved further than usual may be another class mix."""
    sharp: bool = True
    """Whether belief in class counts ends soon; in files of earlier versions it fades."""

    def numbers(self) -> tuple[float, float, float, float]:
        """Return all four, which environments teach."""
        return self.beta_p, self.beta_2, self.beta_g, self.lam

    def gap(self, seen: "WindowStatistics") -> FloatArray:
        """Return the estimated mean confidence minus accuracy of each window."""
        r, fallen = self.belief_in_classes(seen), np.maximum(seen.fall, 0.0)
        one = self.beta_p * seen.price + self.beta_2 * fallen * fallen
        return np.asarray(r * one + (1 - r) * self.beta_g * seen.warm_fall)

    def belief_in_classes(self, seen: "WindowStatistics") -> FloatArray:
        """Return r: how much the class counts are believed to speak of one shift.

        Little where they moved further than such a fall of confidence explains and the classes
        that grew stayed sure, which is another class mix: then few rows are wrong there, and many
        in the classes that shrank; unless no other mix is to be expected. Little where they moved
        far less, which is a mixture of conditions; and little where there are too few rows for so
        many classes.
        """
        usual = self.lam * np.maximum(seen.fall, 0.0)
        spread = CHANCE_SPREAD * seen.chance / np.sqrt(seen.n)
        beyond = np.maximum(seen.variation - usual, 0.0)
        width = USUAL * usual + ALLOWED + BY_CHANCE * np.sqrt(spread)
        like = seen.fall_grown / (ALIKE * seen.fall_shrunk + ALIKE_LEAST)
        mix = _fourth(beyond / width / (1 + _fourth(like)))
        few = _fourth(seen.chance / RESOLVED)
        moved, mixed = seen.variation * seen.variation + spread, np.square(MIXED * usual)
        if self.sharp:
            few, moved, mixed = few * few, moved * moved, mixed * mixed
        one = moved / np.maximum(moved + mixed, TINY)
        mix = mix if self.other_mixes else np.zeros_like(mix)
        return np.asarray(np.exp(-mix) * one / (1 + few))


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


def window_statistics(
    n: ArrayLike,
    confidence: tuple[ArrayLike, ArrayLike],
    terms: ArrayLike,
    chance: ArrayLike,
    clean: tuple[float, float],
) -> WindowStatistics:
    """Return what windows of n > 0 rows say.

    `confidence` is their mean confidence, and the one at which the fall alone is read; `clean`
    are those of clean rows. `terms` are the sums of
    `class_terms` per row of the window: how far the class shares moved, of which `chance` is usual,
    what that costs, chance included, and how sure rows are where they moved.
    """
    moved, price, grown, scarce, shrunk = np.asarray(terms, np.float64)
    n, chance = np.asarray(n, np.float64), np.asarray(chance, np.float64)
    fall, warm_fall = (_fall(n, usual, now) for usual, now in zip(clean, confidence, strict=True))
    beyond = np.sqrt(np.maximum(moved * moved - chance * chance, 0.0))
    part = beyond / np.maximum(moved, TINY)
    return WindowStatistics(
        n,
        fall,
        warm_fall,
        beyond,
        chance,
        price * (part * part * part),
        np.maximum(grown, 0.0) / np.maximum(moved, TINY),
        np.maximum(shrunk, 0.0) / np.maximum(scarce, TINY),
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

    On the falling side of the parabola, at most at its lowest point, and within limits; 0 where
    it does not fall at first, as for a single row that is very sure.
    """
    s, q = curve(means)
    s = np.maximum(s, 0.0)
    within = np.minimum(gap, s * s / np.maximum(4 * q, TINY))
    root = np.sqrt(np.maximum(s * s - 4 * q * within, 0.0))
    return np.asarray(np.clip(2 * within / np.maximum(s + root, SMALL), *OFFSETS))


def _fourth(x: FloatArray) -> FloatArray:
    """Return x⁴, within what floats hold."""
    square = np.square(np.minimum(x, 1e6))
    return np.asarray(square * square)
