"""What the shipped networks teach, for calibrators that are fitted without shifted environments.

benchmarks/studies/context_constants.py measures these numbers, on tuning splits alone.
"""

from itertools import pairwise
from math import log
from typing import Final

from wildcal.calibrators.context.gap import GapModel

SHIPPED: Final = {
    10: GapModel(beta_p=0.47, beta_2=2.25, beta_g=0.71, lam=1.37),
    100: GapModel(beta_p=1.16, beta_2=1.35, beta_g=0.63, lam=1.96),
    1000: GapModel(beta_p=1.19, beta_2=0.11, beta_g=0.06, lam=0.14),
}
"""The means over networks of so many classes. A few rows of a thousand classes teach nothing of
prices; there the first is nearly that of a hundred."""


def shipped(n_classes: int) -> GapModel:
    """Return the numbers for so many classes: between those measured, by their logarithm.

    >>> shipped(2) == SHIPPED[10], shipped(100) == SHIPPED[100], shipped(50_000) == SHIPPED[1000]
    (True, True, True)
    """
    at = min(max(n_classes, min(SHIPPED)), max(SHIPPED))
    few, many = next((a, b) for a, b in pairwise(SHIPPED) if at <= b)
    part = log(at / few) / log(many / few)
    pairs = zip(SHIPPED[few].numbers(), SHIPPED[many].numbers(), strict=True)
    p, two, g, lam = ((1 - part) * a + part * b for a, b in pairs)
    return GapModel(p, two, g, lam)
