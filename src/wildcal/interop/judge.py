"""Whether rows look like logits, or have been normalized so that something of them is lost."""

import numpy as np
from numpy.typing import NDArray

from wildcal.core.checks import PROBA_MAX, looks_like_log_proba, looks_like_proba

# Probabilities of a network in half precision sum to one up to this.
_HALF_SUM = 0.01


def normalized(rows: NDArray[np.float64], *, log_proba_serves: bool) -> str | None:
    """Return what all the rows seem to be if not logits, as a clause; None for logits.

    Probabilities are no logits for any method. Scores that a constant was taken from in each row,
    such as log probabilities, are so for methods that read no energy.
    """
    if looks_like_proba(rows).all():
        return "every row lies in [0, 1] and sums to 1: these are probabilities"
    if log_proba_serves:
        return None
    if looks_like_log_proba(np.logaddexp.reduce(rows, axis=1)):
        return "the exponentials of every row sum to 1: these are log probabilities"
    # Rows of zeros alone may come from a ReLU.
    if (rows.max(axis=1) == 0).all() and (rows < 0).any():
        return "the largest of every row is 0: it has been taken from the others"
    return None


def no_probabilities(rows: NDArray[np.float64]) -> str | None:
    """Return what tells that rows are no probabilities, as a clause; None if they may be.

    Few odd rows prove nothing: random inputs may be nonsense to a model.
    """
    sums = rows.sum(axis=1)
    outside = (rows.min(axis=1) < 0) | (rows.max(axis=1) > PROBA_MAX)
    odd = np.flatnonzero(outside | (np.abs(sums - 1) > _HALF_SUM))
    if 2 * len(odd) <= len(rows):
        return None
    row = int(odd[0])
    if outside[row]:
        return f"a row lies between {rows[row].min():.3g} and {rows[row].max():.3g}"
    return f"a row sums to {sums[row]:.3g}"
