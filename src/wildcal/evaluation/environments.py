"""The tuning rows of a suite as environments: what `ContextScaling` learns from."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wildcal.core.arrays import OOD_LABEL, Labels, Logits
from wildcal.io.suite import Suite, SuiteSplit


class EnvironmentRows(NamedTuple):
    """Rows with their labels and the number of the environment that each belongs to."""

    logits: Logits
    y: Labels
    environment: Labels


def environments(
    suite: Suite,
    *,
    ood: str | None = None,
    ood_rows: int | None = None,
    only: Callable[[SuiteSplit], bool] = lambda split: True,
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
    >>> rows = environments(wildcal.suites.load("cifar10-resnet20"))
    >>> bool((rows.y[rows.environment == rows.environment.max()] == -1).all())
    True
    """
    from wildcal.evaluation.protocol.methods import read_tuning

    tuning = read_tuning(suite, ood, ood_rows)
    parts = [(tuning.logits, tuning.y)]
    for split in suite.tune("covariate"):
        if only(split):
            split.verify()
            parts.append((split.logits, split.y))
    strangers = tuning.ood_logits
    if len(strangers):
        parts.append((strangers, np.full(len(strangers), OOD_LABEL)))
    numbers = [np.full(len(y), i) for i, (_, y) in enumerate(parts)]
    return EnvironmentRows(
        np.concatenate([logits for logits, _ in parts]),
        np.concatenate([y for _, y in parts]),
        np.concatenate(numbers),
    )
