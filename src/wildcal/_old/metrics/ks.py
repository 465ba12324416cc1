"""The Kolmogorov-Smirnov calibration error: no bins, no bandwidth."""

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.metrics.inputs import top_label, undefined


def ks_error(y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None) -> float:
    """Return the largest gap between cumulated confidence and cumulated accuracy, in [0, 1].

    KS = max_t |Σ_{confidence_i <= t} (confidence_i - correct_i)| / n. The sums are compared only
    where the confidence changes, so rows of equal confidence may come in any order. It is at least
    |mean confidence - accuracy|, and at most the ECE with a bin for each distinct confidence.

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
    Gupta et al. (2021), "Calibration of neural networks using splines".

    Examples
    --------
    >>> correct, confidence = np.array([True, False, False]), np.array([0.75, 0.75, 0.5])
    >>> round(ks_error(correct, confidence), 12)  # 0.5 then 0.5 + 2 · 0.25, of 3 rows
    0.333333333333
    """
    correct, confidence = top_label(y, proba, pred)
    if len(confidence) == 0:
        return undefined("ks_error")
    order = np.argsort(confidence)
    gap = np.cumsum((confidence - correct)[order])
    last_of_group = np.append(np.diff(confidence[order]) > 0, True)
    return float(np.abs(gap[last_of_group]).max() / len(order))
