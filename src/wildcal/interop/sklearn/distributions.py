"""Rows of probabilities that sum to one, whatever the method returned."""

import numpy as np

from wildcal.core.arrays import Proba


def as_distributions(proba: Proba) -> Proba:
    """Return rows that sum to one: options for published numbers leave them as they come.

    Rows that are right up to rounding stay as they are; those without any probability are uniform.
    """
    total = proba.sum(axis=1, dtype=np.float64)
    wrong = np.abs(total - 1) > 1e-5
    if not wrong.any():
        return proba
    out = proba.copy()
    nothing = total <= 0
    out[nothing], total[nothing] = 1, proba.shape[1]
    out[wrong] /= total[wrong, None].astype(proba.dtype)
    return out
