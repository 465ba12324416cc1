"""Learning how far confidence lies above accuracy from environments, and from mixtures of them."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.calibrators.context.chance import ChanceTable
from wildcal._old.calibrators.context.constants import SHIPPED
from wildcal._old.calibrators.context.gap import (
    GapModel,
    WindowStatistics,
    offset_for,
    window_statistics,
)
from wildcal._old.calibrators.context.terms import class_terms, usual_confidence
from wildcal._old.core.arrays import FloatArray

MIXTURE_WEIGHT: Final = 0.5
"""Of each kind of mixture, against that of all environments."""
CLEAN_PARTS: Final = (1 / 6, 1 / 16)
"""The clean share of a mixture of several environments."""
_PARTS: Final = 4
_MOST_RANDOM: Final = 200
_MOST_HALVES: Final = 1000
_EASY: Final = 0.05
"""Gaps weigh 1 / (this + gap): relative errors count, down to gaps of this size."""
_SHIPPED_AS: Final = 4.0
"""What is shipped counts as so many environments. It comes from many more kinds of shift: what a
few kinds teach beyond it holds for themselves, and less for others."""
_USUAL_SLOPES: Final = np.array(SHIPPED[10].numbers()[:3])
_SMALL: Final = 1e-12
_MOST_STEPS: Final = 300  # of the solver, whose default for three numbers is nine
_FOLDS: Final = 20


@dataclass(frozen=True, slots=True)
class Points:
    """Windows with known labels, a row for each."""

    n: FloatArray
    """Rows; infinite for a mixture, which stands for all windows of its kind."""
    means: FloatArray
    """Of the three confidences, shape (points, 3)."""
    shares: FloatArray
    """Of the predicted classes, shape (points, K)."""
    inside: FloatArray
    """The part of the mean confidence that rows of each predicted class have, shape (points, K)."""
    unsure: FloatArray
    """The part of all rows that is unsure and predicted as each class, shape (points, K)."""
    accuracy: FloatArray
    counted: FloatArray
    """How many rows the shares come from: those of a mixture as far as its parts do."""

    def __len__(self) -> int:
        return len(self.n)

    def __getitem__(self, points: NDArray[Any]) -> "Points":
        """Return some of the points."""
        return Points(*(of[points] for of in self._columns()))

    def and_then(self, other: "Points") -> "Points":
        """Return these points and others."""
        pairs = zip(self._columns(), other._columns(), strict=True)
        return Points(*(np.concatenate(pair) for pair in pairs))

    def mixed(self, parts: FloatArray) -> "Points":
        """Return mixtures of these points, `parts` of shape (mixtures, points)."""
        return Points(
            np.full(len(parts), np.inf),
            parts @ self.means,
            parts @ self.shares,
            parts @ self.inside,
            parts @ self.unsure,
            parts @ self.accuracy,
            1 / (np.square(parts) @ (1 / self.counted)),
        )

    def _columns(self) -> tuple[FloatArray, ...]:
        return (
            self.n,
            self.means,
            self.shares,
            self.inside,
            self.unsure,
            self.accuracy,
            self.counted,
        )


@dataclass(frozen=True, slots=True)
class Clean:
    """What the clean rows are like, to which windows are compared."""

    point: Points
    """The one point of all of them."""
    chance: ChanceTable
    known: GapModel
    """What holds where environments say nothing."""
    read_at: int
    """Which of the three confidences the fall alone is read at."""

    def statistics(self, points: Points) -> WindowStatistics:
        """Return what the points say as windows."""
        clean = self.point
        usual = usual_confidence(clean.shares[0], clean.inside[0])
        rule, unit = self.known.rule, 1 / points.counted[:, None]
        now = points.shares, points.inside, points.unsure
        terms = class_terms(*now, clean.shares, usual, rule, unit)
        endless = np.isinf(points.n)
        chance = np.where(endless, 0.0, self.chance(np.where(endless, 1.0, points.n)))
        at = [0, self.read_at]
        sure, usually = points.means[:, at].T, clean.means[0, at]
        return window_statistics(
            points.n,
            (sure[0], sure[1]),
            terms.sum(axis=-1),
            chance,
            (usually[0], usually[1], clean.unsure[0].sum()),
            points.shares.shape[1],
            rule,
        )

    def gaps(self, points: Points) -> FloatArray:
        """Return how far confidence lies further above accuracy than on clean rows."""
        own = self.point.means[0, 0] - self.point.accuracy[0]
        return np.asarray(points.means[:, 0] - points.accuracy - own)


def mixtures(clean: Points, shifted: Points) -> list[Points]:
    """Return half-clean halves of each environment with some of four at random, and pools of all.

    What is read off the fall of confidence alone must hold for windows that mix conditions.
    """
    n = len(shifted)
    # In an order of their own, so that the names of environments do not matter.
    order = np.lexsort((shifted.accuracy, *shifted.means.T))
    halves = np.concatenate([np.full((n, 1), 0.5), np.eye(n) * 0.5], axis=1)
    pools = np.array([[part, *[(1 - part) / n] * n] for part in CLEAN_PARTS])
    rng, few = np.random.default_rng(0), min(_PARTS, n)
    random = np.zeros((min(n // 2, _MOST_RANDOM), n + 1))
    random[:, 0] = CLEAN_PARTS[0]
    for row in random:
        row[1 + order[rng.choice(n, few, replace=False)]] = (1 - CLEAN_PARTS[0]) / few
    everything = clean.and_then(shifted)
    parts = [halves, random] if n < _MOST_HALVES else [random]
    return [everything.mixed(np.concatenate(parts)), everything.mixed(pools)]


def learn(clean: Clean, shifted: Points) -> GapModel:
    """Return the model that environments teach; what they say nothing of is as shipped.

    The gap is linear in the three slopes once it is known how far class counts are believed, which
    is the same for every network: least squares, of environments and of their mixtures.
    """
    # Slopes are those of somebody who does not know the class mix: only what they are used with
    # differs, and environments with another mix than they are said to have teach nothing wrong.
    known = replace(clean.known, other_mixes=True)
    columns, gaps, weights = [], [], []
    for points in (shifted, *mixtures(clean.point, shifted)):
        gap, seen = clean.gaps(points), clean.statistics(points)
        columns.append(known.columns(seen))
        gaps.append(gap - known.not_learned(seen))
        part = 1.0 if points is shifted else MIXTURE_WEIGHT * len(shifted) / len(points)
        weights.append(part / (_EASY + np.abs(gap)))
    beta_p, beta_2, beta_g = _slopes(
        np.concatenate(columns, axis=1),
        np.concatenate(gaps),
        np.concatenate(weights),
        np.array(known.numbers()[:3]),
        _SHIPPED_AS / len(shifted),
    )
    beta_2 = known.beta_2 if known.belief.each_class else beta_2
    return replace(clean.known, beta_p=beta_p, beta_2=beta_2, beta_g=beta_g)


def _slopes(
    x: FloatArray, y: FloatArray, w: FloatArray, shipped: FloatArray, pull: float
) -> tuple[float, ...]:
    """Return the b >= 0 that minimize Σ w (y - b x)² + pull Σ w Σ_j (s (b_j - shipped_j) / β_j)².

    β are the usual slopes and s what they make of these x: a slope that little depends on stays
    as shipped, as that of prices does where there are too few rows for so many classes.
    """
    from scipy.optimize import nnls  # here: predicting, and `import wildcal`, need no solver

    size = np.sqrt(np.mean(np.square(_USUAL_SLOPES @ x)))
    stiff = np.sqrt(pull * w.sum()) * max(float(size), _SMALL) / _USUAL_SLOPES
    root = np.sqrt(w)
    left = np.concatenate([(x * root).T, np.diag(stiff)])
    found, _ = nnls(left, np.concatenate([y * root, stiff * shipped]), maxiter=_MOST_STEPS)
    return tuple(found.tolist())


def left_out_errors(clean: Clean, shifted: Points) -> tuple[FloatArray, FloatArray]:
    """Return the errors of the estimated gap on environments left out, and their offsets.

    At most twenty fits; with more environments, several are left out at a time.
    """
    n = len(shifted)
    order = np.lexsort((shifted.accuracy, *shifted.means.T))
    error, offset = np.zeros(n), np.zeros(n)
    for fold in range(min(n, _FOLDS)):
        out = np.zeros(n, np.bool_)
        out[order[fold::_FOLDS]] = True
        model = learn(clean, shifted[~out]) if n > out.sum() else clean.known
        mine = shifted[out]
        gap = model.gap(clean.statistics(mine))
        error[out] = gap - clean.gaps(mine)
        offset[out] = offset_for(gap, mine.means.T)
    return error, offset
