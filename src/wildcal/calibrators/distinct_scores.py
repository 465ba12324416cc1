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

from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.blocks import running
from wildcal.core.room import check_scores


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
        score = np.tile(self.score, 2)
        correct = np.repeat([True, False], len(self.score))
        weight = np.concatenate([self.right, self.wrong])
        some = weight > 0
        return score[some], correct[some], weight[some]


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
    first = np.flatnonzero(np.append(True, new))
    return DistinctScores(
        score[first], np.add.reduceat(right, first), np.add.reduceat(wrong, first)
    )


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
        runs.append(run)
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            runs[-2:] = [whole(runs[-2:])]
    return tuple(runs)
