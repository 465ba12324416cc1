"""Scores and whether they were right, one entry for each distinct score: exact, and mergeable.

Every map of the confidence is fitted on these: equal scores are one point with a weight, so the
result is that of all rows, in memory that grows with the number of distinct scores alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.blocks import partly


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
        return _merged(score, w * correct, w * ~correct)

    def rows(self) -> tuple[FloatArray, BoolArray, FloatArray]:
        """Return scores, whether they are right, and weights, as if these were rows."""
        score = np.tile(self.score, 2)
        correct = np.repeat([True, False], len(self.score))
        weight = np.concatenate([self.right, self.wrong])
        some = weight > 0
        return score[some], correct[some], weight[some]


def _merged(score: FloatArray, right: FloatArray, wrong: FloatArray) -> DistinctScores:
    order = np.argsort(score, kind="stable")
    score = score[order]
    first = np.flatnonzero(np.append(True, score[1:] != score[:-1])) if len(score) else order
    sums = [np.add.reduceat(w[order], first) if len(first) else w for w in (right, wrong)]
    return DistinctScores(score[first], *sums)


@partly
def merged(parts: Sequence[DistinctScores]) -> DistinctScores:
    """Return the scores of all parts together."""
    if len(parts) == 1:
        return parts[0]
    return _merged(
        np.concatenate([part.score for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.concatenate([part.wrong for part in parts]),
    )
