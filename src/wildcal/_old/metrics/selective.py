"""Selective prediction: the risk that remains when the least confident rows are refused."""

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.metrics.inputs import top_label, undefined


def aurc(y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None) -> float:
    """Return the area under the risk-coverage curve: 0 is best, the error rate is chance.

    AURC = (1/n) Σ_i (errors among the i most confident rows) / i. Rows of equal confidence share
    their errors evenly, which is the mean over all their orders, so the value does not depend on
    how ties were sorted.

    Parameters
    ----------
    y, proba
        Integer labels (n,) in [-1, K-1] and probabilities (n, K); or a boolean `correct` (n,) and
        confidences (n,). Rows with y = -1 count as wrong.
    pred
        Predicted classes (n,), best taken from the raw logits. Default: argmax of each row.

    Returns
    -------
    float
        NaN, with a warning, if there are no rows.

    References
    ----------
    Geifman and El-Yaniv (2017), "Selective classification for deep neural networks".

    Examples
    --------
    >>> aurc(np.array([True, False]), np.array([0.9, 0.6]))  # (0/1 + 1/2) / 2
    0.25
    """
    correct, confidence = top_label(y, proba, pred)
    if len(confidence) == 0:
        return undefined("aurc")
    order = np.argsort(-confidence)
    starts = np.flatnonzero(np.diff(confidence[order], prepend=2.0))
    sizes = np.diff(starts, append=len(order))
    errors = np.add.reduceat(~correct[order], starts, dtype=np.float64)
    risk = np.cumsum(np.repeat(errors / sizes, sizes)) / np.arange(1, len(order) + 1)
    return float(risk.mean())
