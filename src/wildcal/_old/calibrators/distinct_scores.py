"""Scores and whether they were right, one entry for each distinct score: exact, and mergeable.

Every map of the confidence is fitted on these: equal scores are one point with a weight, so the
result is that of all rows, in memory that grows with the number of distinct scores alone. A walk
collects them in sorted runs, each more than twice as long as the next. So a score is merged about
as often as the number of blocks can be halved, and all runs together have at most twice as many
entries as there are distinct scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.core.blocks import running
from wildcal._old.core.room import check_scores


@dataclass(frozen=True, slots=True)
class DistinctScores:
    """Increasing scores, with the weights of right and of wrong rows."""

    score: FloatArray
    right: FloatArray
    wrong: FloatArray

    @classmethod
    def of_rows(
        cls, score: FloatArray, correct: BoolArray, weight: FloatArray | None
    ) -> "DistinctScores":
        """Return those of some rows; rows of weight 0 are left out.

        >>> scores = np.array([0.5, 0.25, 0.5])
        >>> DistinctScores.of_rows(scores, np.array([True, False, True]), None)
        DistinctScores(score=array([0.25, 0.5 ]), right=array([0., 2.]), wrong=array([1., 0.]))
        """
        w = np.ones(len(score)) if weight is None else weight
        if weight is not None and not (w > 0).all():
            score, correct, w = score[w > 0], correct[w > 0], w[w > 0]
        # Sums of ones are exact in any order, and a sort that is not stable is four times as fast.
        return _merged(score, w * correct, w * ~correct, None if weight is None else "stable")

    def __len__(self) -> int:
        return len(self.score)

    def rows(self) -> tuple[FloatArray, BoolArray, FloatArray]:
        """Return scores, whether they are right, and weights, as if these were rows."""
        right, wrong = self.right > 0, self.wrong > 0
        score = np.concatenate([self.score[right], self.score[wrong]])
        weight = np.concatenate([self.right[right], self.wrong[wrong]])
        return score, np.arange(len(score)) < np.count_nonzero(right), weight


Runs: TypeAlias = tuple[DistinctScores, ...]
"""Scores of many rows; a score may be in each of the runs."""


def _merged(
    score: FloatArray, right: FloatArray, wrong: FloatArray, kind: Literal["stable"] | None
) -> DistinctScores:
    check_scores(len(score))
    order = np.argsort(score, kind=kind)
    score, right, wrong = score[order], right[order], wrong[order]
    new = score[1:] != score[:-1]
    if new.all():
        return DistinctScores(score, right, wrong)
    first, again = np.flatnonzero(np.append(True, new)), np.flatnonzero(~new) + 1
    if len(again) > len(first) // 8:
        sums = (np.add.reduceat(w, first) for w in (right, wrong))
    else:  # few are there twice: to add these alone takes a fraction of the time
        place = np.searchsorted(first, again) - 1
        sums = (_with_more(w[first], place, w[again]) for w in (right, wrong))
    return DistinctScores(score[first], *sums)


def _with_more(weight: FloatArray, place: NDArray[np.intp], more: FloatArray) -> FloatArray:
    np.add.at(weight, place, more)
    return weight


def whole(runs: Sequence[DistinctScores]) -> DistinctScores:
    """Return the scores of all runs as one.

    >>> one = DistinctScores(np.array([0.5]), np.array([1.0]), np.array([0.0]))
    >>> whole((one, one))
    DistinctScores(score=array([0.5]), right=array([2.]), wrong=array([0.]))
    """
    if len(runs) == 1:
        return runs[0]
    return _merged(
        np.concatenate([run.score for run in runs]),
        np.concatenate([run.right for run in runs]),
        np.concatenate([run.wrong for run in runs]),
        "stable",  # which merges runs that are sorted
    )


@running
def merged(parts: Sequence[Runs]) -> Runs:
    """Return the runs of all parts together, in the order of the rows."""
    first, *others = parts
    runs = list(first)
    for run in (run for part in others for run in part):
        # As many at a time as will be one in the end.
        at, length = len(runs), len(run)
        while at and len(runs[at - 1]) <= 2 * length:
            at -= 1
            length += len(runs[at])
        runs[at:] = [whole([*runs[at:], run])]
    return tuple(runs)
