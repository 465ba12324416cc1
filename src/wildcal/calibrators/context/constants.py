"""What the shipped networks teach, for calibrators that are fitted without shifted environments.

benchmarks/studies/context_belief.py fits the slopes of 10 and 100 classes;
benchmarks/studies/context_constants.py shows beside them what each network teaches.
"""

from itertools import pairwise
from math import log
from typing import Final

from wildcal.calibrators.context.gap import GapModel

SHIPPED: Final = {
    10: GapModel(beta_p=0.60, beta_2=3.6, beta_g=0.55, lam=1.46),
    100: GapModel(beta_p=1.31, beta_2=1.05, beta_g=0.76, lam=2.06),
    1000: GapModel(beta_p=1.22, beta_2=0.13, beta_g=0.07, lam=0.15),
}
"""Of all networks of so many classes together. A few rows of a thousand classes teach nothing of
prices; there the first is nearly that of a hundred."""

STEEPEST: Final = {10: 0.15, 100: 0.05, 1000: 0.0}
"""W: how much the margin of a row weighs in a shifted window. The more classes, the less."""
READ_AT: Final = 1
"""The fall alone is read when warmer by 0.4: it varies less from row to row."""


def shipped(n_classes: int) -> GapModel:
    """Return the numbers for so many classes: between those measured, by their logarithm.

    >>> shipped(2) == SHIPPED[10], shipped(100) == SHIPPED[100], shipped(50_000) == SHIPPED[1000]
    (True, True, True)
    """
    few, many, part = _between(n_classes)
    pairs = zip(SHIPPED[few].numbers(), SHIPPED[many].numbers(), strict=True)
    p, two, g, lam = ((1 - part) * a + part * b for a, b in pairs)
    return GapModel(p, two, g, lam)


def steepest(n_classes: int) -> float:
    """Return W for so many classes, in the same way.

    >>> steepest(2), steepest(1000)
    (0.15, 0.0)
    """
    few, many, part = _between(n_classes)
    return (1 - part) * STEEPEST[few] + part * STEEPEST[many]


def _between(n_classes: int) -> tuple[int, int, float]:
    """Return the numbers of classes around this one, and how far it lies from the first."""
    at = min(max(n_classes, min(SHIPPED)), max(SHIPPED))
    few, many = next((a, b) for a, b in pairwise(SHIPPED) if at <= b)
    return few, many, log(at / few) / log(many / few)
