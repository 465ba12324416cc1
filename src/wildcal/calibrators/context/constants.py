"""What the shipped networks teach, for calibrators that are fitted without shifted environments.

benchmarks/studies/context_constants.py measures these numbers, on tuning splits alone.
"""

from math import log
from typing import Final

from wildcal.calibrators.context.gap import GapModel

SHIPPED: Final = {
    10: GapModel(beta_p=0.47, beta_2=2.25, beta_g=0.71, lam=1.37),
    100: GapModel(beta_p=1.16, beta_2=1.35, beta_g=0.63, lam=1.96),
}
"""The means over networks of so many classes."""


def shipped(n_classes: int) -> GapModel:
    """Return the numbers for so many classes: between those measured, by their logarithm.

    >>> shipped(2) == SHIPPED[10], shipped(1000) == SHIPPED[100]
    (True, True)
    """
    (few, low), (many, high) = SHIPPED.items()
    part = min(max(log(n_classes / few) / log(many / few), 0.0), 1.0)
    pairs = zip(low.numbers(), high.numbers(), strict=True)
    p, two, g, lam = ((1 - part) * a + part * b for a, b in pairs)
    return GapModel(p, two, g, lam)
