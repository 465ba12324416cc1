"""What the shipped networks teach, for calibrators that are fitted without shifted environments.

They were fitted on the tuning splits of shipped networks with 10, 100 and 1,000 classes.
"""

from dataclasses import replace
from itertools import pairwise
from math import log
from typing import Final

from wildcal._old.calibrators.context.belief import BELIEFS, MANY_CLASSES
from wildcal._old.calibrators.context.gap import GapModel

MANY: Final = 32
"""From so many classes on each is judged by itself."""
_EACH: Final = BELIEFS[MANY_CLASSES]
SHIPPED: Final = {
    10: GapModel(beta_p=0.60, beta_2=3.6, beta_g=0.55, lam=1.46),
    100: GapModel(beta_p=0.80, beta_2=0.0, beta_g=0.44, lam=2.06, belief=_EACH),
    1000: GapModel(
        beta_p=0.0, beta_2=0.9, beta_g=0.0, lam=0.15, belief=_EACH, beta_h=0.0, counted=0.0
    ),
}
"""Of all networks of so many classes together. A few rows of a thousand classes teach nothing of
prices, and there confidence falls as accuracy does until it has fallen far."""
KNOWN_MIX: Final = {
    100: GapModel(0.73, 0.0, 0.40, 2.06, other_mixes=False, belief=_EACH),
    1000: GapModel(0.0, 0.9, 0.0, 0.15, other_mixes=False, belief=_EACH, beta_h=0.0, counted=0.0),
}
"""The same where many classes are known to keep their shares; few have the slopes above."""
STEEPEST: Final = {10: 0.15, 100: 0.05, 1000: 0.0}
"""W: how much the margin of a row weighs in a shifted window. The more classes, the less."""
READ_AT: Final = 1
"""The fall alone is read when warmer by 0.4: it varies less from row to row."""


def shipped(n_classes: int, *, other_mixes: bool = True) -> GapModel:
    """Return the numbers for so many classes: between those measured, by their logarithm.

    Below 32 classes they are those of 10, and up to 100 those of 100.

    >>> shipped(2) == SHIPPED[10], shipped(32) == SHIPPED[100], shipped(50_000) == SHIPPED[1000]
    (True, True, True)
    """
    if n_classes < MANY:
        return replace(SHIPPED[10], other_mixes=other_mixes)
    table = SHIPPED if other_mixes else KNOWN_MIX
    few, many, part = _between(max(n_classes, 100))
    pairs = zip(table[few].numbers(), table[many].numbers(), strict=True)
    p, two, g, lam, *more = ((1 - part) * a + part * b for a, b in pairs)
    return GapModel(p, two, g, lam, other_mixes, _EACH, *more)


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
    few, many = next((a, b) for a, b in reversed(list(pairwise(SHIPPED))) if at >= a)
    return few, many, log(at / few) / log(many / few)
