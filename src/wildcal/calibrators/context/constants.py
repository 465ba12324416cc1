"""What the shipped networks teach, for calibrators that are fitted without shifted environments.

benchmarks/studies/context_constants.py measures these numbers, on tuning splits alone.
"""

from typing import Final

from wildcal.calibrators.context.gap import GapModel

SHIPPED: Final = GapModel(beta_p=1.23, beta_2=2.67, beta_g=0.73, lam=1.36)
"""The mean over three networks of ten classes."""
