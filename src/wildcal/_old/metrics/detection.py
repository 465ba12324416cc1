"""How well a score separates two kinds of rows: AUROC, AUPR and FPR at 95 % recall.

Rows with the same score form one group and enter together, so no number depends on their order.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.core.checks import check_choice, check_flags, check_scores
from wildcal._old.metrics.inputs import is_empty, undefined


def _checked(flags: ArrayLike, scores: ArrayLike, name: str) -> tuple[BoolArray, FloatArray]:
    if is_empty(flags, scores):
        return np.empty(0, dtype=np.bool_), np.empty(0)
    values = check_scores(scores, "scores")
    return check_flags(flags, len(values), name), values


def _curve(positive: BoolArray, scores: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return true and false positives above each distinct score, from high to low.

    None if one of the two kinds is missing, because then no separation can be measured.
    """
    if not positive.any() or positive.all():
        return None
    order = np.argsort(-scores)
    ranked = scores[order]
    last_of_group = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    true = np.cumsum(positive[order])[last_of_group].astype(np.float64)
    return true, last_of_group + 1.0 - true


_ONE_KIND = "both kinds of rows are needed"


def auroc(positive: ArrayLike, scores: ArrayLike) -> float:
    """Return the probability that a positive row has a higher score than another, ties half.

    This is the Mann-Whitney statistic with mid-ranks, 0.5 if the score says nothing. For
    out-of-distribution detection pass ``y >= 0`` and the confidence; for misclassification pass
    `correct` and the confidence.

    Parameters
    ----------
    positive
        Boolean (n,): the rows that should have high scores.
    scores
        Finite numbers (n,), of any range.

    Returns
    -------
    float
        NaN, with a warning, unless both kinds of rows occur.

    Examples
    --------
    >>> auroc(np.array([True, True, False]), [0.9, 0.4, 0.4])  # one win and one tie of two
    0.75
    """
    curve = _curve(*_checked(positive, scores, "positive"))
    if curve is None:
        return undefined("auroc", _ONE_KIND)
    true, false = (np.concatenate([[0.0], counts]) for counts in curve)
    return float(np.trapezoid(true, false) / (true[-1] * false[-1]))


def _average_precision(positive: BoolArray, scores: FloatArray) -> float | None:
    curve = _curve(positive, scores)
    if curve is None:
        return None
    true, false = curve
    return float(np.sum(np.diff(true, prepend=0.0) * true / (true + false)) / true[-1])


def aupr_in(is_id: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision of finding in-distribution rows by high scores.

    AP = Σ_n (R_n - R_(n-1)) · P_n over distinct scores, without interpolation (the trapezoid is too
    kind). The value depends on the share of in-distribution rows, which a useless score reaches.

    Parameters
    ----------
    is_id
        Boolean (n,): in-distribution, the positive class here.
    scores
        Finite numbers (n,), high for in-distribution.

    Returns
    -------
    float
        NaN, with a warning, unless both kinds of rows occur.

    Examples
    --------
    >>> round(aupr_in(np.array([True, False, True]), [0.9, 0.5, 0.1]), 4)  # (1/1 + 2/3) / 2
    0.8333
    """
    value = _average_precision(*_checked(is_id, scores, "is_id"))
    return undefined("aupr_in", _ONE_KIND) if value is None else value


def aupr_out(is_id: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision of finding out-of-distribution rows by low scores.

    The same arguments as `aupr_in`; the positive class is now ``~is_id``, ranked by ``-scores``.

    Examples
    --------
    >>> aupr_out(np.array([True, False, True]), [0.9, 0.5, 0.1])
    0.5
    """
    flags, values = _checked(is_id, scores, "is_id")
    value = _average_precision(~flags, -values)
    return undefined("aupr_out", _ONE_KIND) if value is None else value


def fpr95(is_id: ArrayLike, scores: ArrayLike, *, positive: Literal["id", "ood"] = "id") -> float:
    """Return the share of negatives let through when 95 % of the positives are.

    The threshold is the highest one whose recall is at least 95 %.

    Parameters
    ----------
    is_id
        Boolean (n,): in-distribution.
    scores
        Finite numbers (n,), high for in-distribution whatever `positive` is.
    positive
        "id": keep 95 % of the in-distribution rows, count the out-of-distribution rows among them
        (Liu et al., 2020). "ood": catch 95 % of the out-of-distribution rows, count false alarms
        (Hendrycks et al., 2019). The two are different numbers.

    Returns
    -------
    float
        NaN, with a warning, unless both kinds of rows occur.

    Examples
    --------
    >>> fpr95(np.array([True, True, False, False]), [0.9, 0.6, 0.7, 0.1])
    0.5
    """
    check_choice("positive", positive, ("id", "ood"))
    flags, values = _checked(is_id, scores, "is_id")
    curve = _curve(flags, values) if positive == "id" else _curve(~flags, -values)
    if curve is None:
        return undefined("fpr95", _ONE_KIND)
    true, false = curve
    # In whole rows, 100 · true >= 95 · all: 0.95 itself is not a binary number.
    at = int(np.argmax(100 * true >= 95 * true[-1]))
    return float(false[at] / false[-1])
