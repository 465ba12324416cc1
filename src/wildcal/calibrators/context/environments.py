"""The rows of a fit, grouped by environment: how much each counts, and its context."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.calibrators.context.features import CONFIDENCE, ENERGY
from wildcal.core.arrays import FloatArray, Labels

CLEAN_WEIGHT: Final = 1.0
SHIFTED_WEIGHT: Final = 5.0
"""Of all shifted environments together, so that more of them do not drown the clean one."""
OOD_WEIGHT: Final = 0.1
"""Of all environments of other classes together."""
MIXTURE_WEIGHT: Final = 1 / 6
"""Of all labeled environments once more, in the context of their mixture, for each shifted one:
the more there are, the better their mixture stands for one that is met in use."""
# A window of n rows is believed n / (n + this).
PRIOR_ROWS: Final = 4.0
# With many classes a window of one class would otherwise be r = K away from all that was learned;
# shifted windows of ten classes reach 5.
LEAST_CHANGE: Final = -0.5
MOST_CHANGE: Final = 6.0


@dataclass(frozen=True, slots=True)
class Environments:
    """Row weights, and the context columns of each row: in its environment, in the mixture."""

    weight: FloatArray
    columns: FloatArray
    """Shape (n, 3): that of `context_columns`."""
    mixture_weight: FloatArray
    """Zero in environments of other classes, which the mixture leaves out. Rows of other classes
    inside a labeled environment are part of it, and of the mixture."""
    mixture_columns: FloatArray
    """Shape (3,): all rows of the mixture have the same context."""
    shifted: tuple[int, ...]
    """The numbers of the shifted environments."""
    rows: dict[int, NDArray[np.intp]]
    """Which rows each environment has."""


def same_class_rate(counts: FloatArray) -> float:
    """Return how often two different rows are predicted to be of one class."""
    n = float(counts.sum())
    return float(counts @ (counts - 1)) / (n * (n - 1)) if n > 1 else 0.0


def context_columns(
    n: ArrayLike, means: FloatArray, same_class: ArrayLike, clean_same_class: float
) -> FloatArray:
    """Return what the temperature depends on: g_e, g_c and -g_c r, shape (3, ...).

    `means` are those of energy and confidence over windows of n > 0 rows, shape (2, ...); n and the
    rate of the same class have one number per window. r is how much more often two rows are given
    the same class than on clean rows. Shift makes networks favor a few classes, but so does a
    window of few classes; there, confidence stays as it was, and the product with it small.
    """
    belief = 1 / (1 + PRIOR_ROWS / np.asarray(n, np.float64))
    g_e, g_c = belief * means
    # One row makes no pair, and says nothing about classes.
    surplus = np.where(np.asarray(n) > 1, np.asarray(same_class) / clean_same_class - 1, 0.0)
    r = np.clip(belief * surplus, LEAST_CHANGE, MOST_CHANGE)
    return np.stack([g_e, g_c, -g_c * r])


def light_note(weight: FloatArray, rows_of: dict[int, NDArray[np.intp]]) -> str | None:
    """Return a warning if the many rows of an environment weigh as little as a few."""
    for mine in rows_of.values():
        if weight[mine].sum() < PRIOR_ROWS <= len(mine):
            return (
                f"the weights of the environment of row {mine[0]} sum to {weight[mine].sum():.3g},"
                " so its context counts as one of so few rows. Weights count rows: scale them to a"
                " mean of 1."
            )
    return None


def rows_of_each(environment: Labels) -> dict[int, NDArray[np.intp]]:
    """Return the rows of each environment in their order, sorted once for however many there are.

    >>> rows_of_each(np.array([2, 0, 2]))
    {0: array([1]), 2: array([0, 2])}
    """
    order = np.argsort(environment, kind="stable")
    numbers, first = np.unique(environment[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))


def clean_same_class_rate(pred: Labels, weight: FloatArray, n_classes: int) -> float:
    """Return how often two rows of the clean environment have one predicted class."""
    share = np.bincount(pred, weight, n_classes) / weight.sum()
    return float(share @ share)


def group(
    features: FloatArray,
    pred: Labels,
    y: Labels,
    weight: FloatArray,
    environment: Labels,
    n_classes: int,
    clean_same_class: float,
) -> Environments:
    """Return the environments of a fit; `features` are in units of the clean rows, (3, n)."""
    numbers = np.unique(environment[weight > 0]).tolist()
    labeled = set(np.unique(environment[(weight > 0) & (y >= 0)]).tolist())
    ood = [e for e in numbers if e and e not in labeled]
    shifted = [e for e in numbers if e and e in labeled]
    rows_of = rows_of_each(environment)
    shares = {0: CLEAN_WEIGHT}
    shares |= {e: SHIFTED_WEIGHT / len(shifted) for e in shifted}
    shares |= {e: OOD_WEIGHT / len(ood) for e in ood}
    row_weight, columns = np.zeros(len(y)), np.zeros((len(y), 3))
    pooled = np.zeros(2)
    frequency = np.zeros(n_classes)
    both = features[[ENERGY, CONFIDENCE]]
    for number, share in shares.items():
        rows = rows_of[number]
        mine = weight[rows]
        n = mine.sum()
        row_weight[rows] = share * mine / n
        means = both[:, rows] @ mine / n
        counts = np.asarray(np.bincount(pred[rows], mine, n_classes), np.float64)
        columns[rows] = context_columns(n, means, same_class_rate(counts), clean_same_class)
        if number == 0 or number in labeled:
            pooled += share * means
            frequency += share * counts / n
    total = CLEAN_WEIGHT + SHIFTED_WEIGHT
    mixed = frequency / total
    mixture = context_columns(np.inf, pooled / total, float(mixed @ mixed), clean_same_class)
    in_mixture = np.where(np.isin(environment, ood), 0.0, row_weight)
    return Environments(
        row_weight,
        columns,
        len(shifted) * MIXTURE_WEIGHT / total * in_mixture,
        mixture,
        tuple(shifted),
        rows_of,
    )
