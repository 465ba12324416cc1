"""What labeled rows say of each environment, as sums over blocks: they add, whatever the rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.calibrators.context.environments import PRIOR_ROWS
from wildcal._old.calibrators.context.learn import Points
from wildcal._old.core.arrays import FloatArray, Labels, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, map_blocks

# Sums of an environment before those of its classes: weight, weight of right rows, rows.
_OWN = 3
# Beyond every row.
_NOWHERE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentSums:
    """Sums over the rows of some environments; those of disjoint rows add."""

    numbers: Labels
    """Which environments, increasing."""
    first: Labels
    """The first row of each."""
    sums: FloatArray
    """Of each a row: weight, weight of right rows, how many rows; the features, and by predicted
    class the weight, the first feature and the last."""

    def __add__(self, other: "EnvironmentSums") -> "EnvironmentSums":
        """Return the sums of both."""
        numbers = np.union1d(self.numbers, other.numbers)
        first = np.full(len(numbers), _NOWHERE)
        sums = np.zeros((len(numbers), self.sums.shape[1]))
        for part in (self, other):
            at = np.searchsorted(numbers, part.numbers)
            first[at] = np.minimum(first[at], part.first)
            sums[at] += part.sums
        return EnvironmentSums(numbers, first, sums)

    def points(self, n_classes: int) -> Points:
        """Return the environments as windows with known labels."""
        n = self.sums[:, 0]
        means = self.sums / n[:, None]
        features, by_class = np.split(means[:, _OWN:], [-3 * n_classes], axis=1)
        shares, inside, unsure = np.split(by_class, 3, axis=1)
        return Points(n, features[:, :-1], shares, inside, unsure, means[:, 1], n)

    def light_note(self) -> str | None:
        """Return a warning if the many rows of an environment weigh as little as a few."""
        weight, rows = self.sums[:, 0], self.sums[:, 2]
        for i in np.flatnonzero((weight < PRIOR_ROWS) & (rows >= PRIOR_ROWS))[:1]:
            return (
                f"the weights of the environment of row {self.first[i]} sum to {weight[i]:.3g}, so"
                " its context counts as one of so few rows. Weights count rows: scale them to a"
                " mean of 1."
            )
        return None


def environment_sums(
    logits: Source,
    y: Labels,
    weight: FloatArray,
    environment: Labels,
    features: Callable[[Block], FloatArray],
) -> EnvironmentSums:
    """Return the sums of all rows with a weight; `features` are of shape (features, n)."""
    k = logits.shape[1]

    def sums(block: Block) -> EnvironmentSums:
        w = weight[block.rows]
        some = np.flatnonzero(w > 0)
        numbers, first, index = np.unique(
            environment[block.rows][some], return_index=True, return_inverse=True
        )
        w, pred, seen = w[some], block.pred()[some], features(block)[:, some]
        right, by_class = pred == y[block.rows][some], index * k + pred

        def total(values: NDArray[Any], at: NDArray[np.intp], width: int) -> FloatArray:
            sums = np.bincount(at, values, len(numbers) * width)
            return np.asarray(sums.reshape(len(numbers), width), np.float64)

        columns = [w, w * right, np.ones(len(w)), *(w * seen)]
        return EnvironmentSums(
            numbers.astype(np.int64),
            block.rows.start + some[first],
            np.hstack(
                [total(column, index, 1) for column in columns]
                + [total(column, by_class, k) for column in (w, w * seen[0], w * seen[-1])]
            ),
        )

    found: EnvironmentSums = map_blocks(logits, sums, added)
    return found
