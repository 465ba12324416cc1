"""Whether rows look like logits, or have been normalized so that something of them is lost."""

import numpy as np
from numpy.typing import NDArray

from wildcal.core.checks import looks_like_log_proba, looks_like_proba


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
