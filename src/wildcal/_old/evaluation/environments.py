"""The tuning rows of a suite as environments: what `ContextScaling` learns from."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from wildcal._old.calibrators.context.environments import CLEAN_WEIGHT, OOD_WEIGHT, SHIFTED_WEIGHT
from wildcal._old.core.arrays import FloatArray, Labels, Logits

if TYPE_CHECKING:  # reading suites is slow to import, and `import wildcal` must be quick
    from wildcal._old.io.suite import Suite, SuiteSplit

Choice: TypeAlias = Callable[["SuiteSplit"], bool]
"""Which splits to take."""


class EnvironmentRows(NamedTuple):
    """Rows with their labels and the number of the environment that each belongs to."""

    logits: Logits
    y: Labels
    environment: Labels

    def weights(self) -> FloatArray:
        """Return row weights, 1 on average, with which any method counts as `ContextScaling` does.

        Clean rows have weight 1 in all, shifted environments 5, other classes 0.1.
        """
        sizes = np.bincount(self.environment)
        numbers = np.arange(len(sizes))
        labeled = np.bincount(self.environment, self.y >= 0) > 0
        share = np.full(len(sizes), CLEAN_WEIGHT)
        for kind, together in (
            ((numbers > 0) & labeled, SHIFTED_WEIGHT),
            ((numbers > 0) & ~labeled, OOD_WEIGHT),
        ):
            share[kind] = together / max(1, kind.sum())
        weight = (share / np.maximum(1, sizes))[self.environment]
        return np.asarray(weight / weight.mean())


def everything(split: "SuiteSplit") -> bool:
    """Take every split."""
    return True


def environments(
    suite: "Suite",
    *,
    ood: str | None = None,
    ood_rows: int | None = None,
    only: Choice = everything,
) -> EnvironmentRows:
    """Return the tuning rows of a suite: clean (0), shifted (1, 2, ...), and some other classes.

    Parameters
    ----------
    ood, ood_rows
        The semantic set to take, by default the first, and how many of its rows, by default as
        many as the paper tunes with; 0 for none.
    only
        Which of the shifted splits to take, by default all.

    Examples
    --------
    >>> import wildcal
    >>> rows = environments(wildcal._old.suites.load("cifar10-resnet20"))
    >>> bool((rows.y[rows.environment == rows.environment.max()] == -1).all())
    True
    """
    from wildcal._old.evaluation.protocol.tuning import read_tuning

    with suite.opened():
        return read_tuning(suite, ood, ood_rows, only).rows(("clean", "ood", "shifted"))
