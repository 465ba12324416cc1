"""Detection metrics (AUROC, AUPR, FPR95), the risk-coverage curve and its area."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice
from wildcal.metrics._scores import (
    Curve,
    Scores,
    check_scores,
    defined,
    mean,
    measure,
    per_replicate,
)

Statistic: TypeAlias = Callable[[FloatArray, FloatArray], float]
"""A number of the weights of positives and negatives, cumulated over distinct scores."""
Positive: TypeAlias = Literal["right", "wrong", "id", "ood"]


def auroc(positive: ArrayLike, scores: ArrayLike) -> float:
    """Return the probability that a positive sample has a higher score than another, ties half.

    For misclassification pass whether the prediction was right and the confidence; for OOD
    detection pass ``y >= 0`` and the confidence.

    Parameters
    ----------
    positive
        Booleans (n,): the samples that should have high scores.
    scores
        Finite numbers (n,).

    Returns
    -------
    float
        NaN, with a warning, unless both kinds of samples occur.

    Examples
    --------
    >>> auroc(np.array([True, True, False]), [0.9, 0.4, 0.4])  # one win and one tie of two
    0.75
    """
    return _detect(area, "right", positive, scores, "positive")


def aupr_in(is_id: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision of finding in-distribution samples by high scores.

    AP is the sum of (recall_n - recall_(n-1)) precision_n over distinct scores. A useless score
    has the fraction of in-distribution samples. Arguments as in `auroc`, `is_id` the positives.

    Examples
    --------
    >>> round(aupr_in(np.array([True, False, True]), [0.9, 0.5, 0.1]), 4)  # (1/1 + 2/3) / 2
    0.8333
    """
    return _detect(average_precision, "right", is_id, scores)


def aupr_out(is_id: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision of finding OOD samples by low scores.

    Examples
    --------
    >>> aupr_out(np.array([True, False, True]), [0.9, 0.5, 0.1])
    0.5
    """
    return _detect(average_precision, "wrong", is_id, scores)


def fpr95(is_id: ArrayLike, scores: ArrayLike, *, positive: Literal["id", "ood"] = "id") -> float:
    """Return the false positive rate at the highest threshold with a recall of at least 95 %.

    Parameters
    ----------
    is_id
        Booleans (n,): in-distribution.
    scores
        Finite numbers (n,), high for in-distribution samples.
    positive
        "id": recall of in-distribution samples (Liu et al., 2020). "ood": recall of OOD samples
        (Hendrycks et al., 2019).

    Examples
    --------
    >>> fpr95(np.array([True, True, False, False]), [0.9, 0.6, 0.7, 0.1])
    0.5
    """
    check_choice("positive", positive, ("id", "ood"))
    return _detect(false_positive_rate, "right" if positive == "id" else "wrong", is_id, scores)


def aurc(y: Any, proba: Any, *, sample_weight: Any = None) -> float:
    """Return the area under the risk-coverage curve.

    The mean over i of the error rate of the i most confident samples; equal confidences share
    their errors evenly. Lower is better; random confidences give the error rate.

    Parameters
    ----------
    y, proba
        As in `ece`. Samples with y = -1 (OOD) count as wrong.
    sample_weight
        Counts (n,): a weight of 2 is equivalent to repeating the sample.

    References
    ----------
    Geifman and El-Yaniv (2017), "Selective classification for deep neural networks".

    Examples
    --------
    >>> aurc(np.array([True, False]), np.array([0.9, 0.6]))  # (0/1 + 1/2) / 2
    0.25
    """
    return measure(compute_aurc, y, proba, sample_weight)


@dataclass(frozen=True, eq=False)
class RiskCoverage(Curve):
    """The risk-coverage curve: error rate of the most confident samples.

    Arrays have one entry for each distinct confidence, from high to low.
    """

    threshold: FloatArray
    """Samples with at least this confidence are answered."""
    coverage: FloatArray
    """Fraction of samples that are answered."""
    risk: FloatArray
    """Error rate of the answered samples."""

    def coverage_at(self, accuracy: float) -> float:
        """Return the largest coverage at which the accuracy is at least this; 0 if there is none.

        Examples
        --------
        >>> curve = risk_coverage(np.array([True, True, False, True]), [0.9, 0.8, 0.7, 0.6])
        >>> curve.coverage_at(0.75)
        1.0
        """
        return float(self.coverage[self.risk <= 1 - accuracy + 1e-12].max(initial=0.0))

    def thinned(self, n: int = 200) -> "RiskCoverage":
        """Return at most n points, evenly spaced in coverage, with both ends."""
        if len(self.coverage) <= n:
            return self
        at = np.searchsorted(self.coverage, np.linspace(self.coverage[0], self.coverage[-1], n))
        at = np.unique(np.minimum(at, len(self.coverage) - 1))
        return RiskCoverage(self.threshold[at], self.coverage[at], self.risk[at])


def risk_coverage(y: Any, proba: Any, *, sample_weight: Any = None) -> RiskCoverage:
    """Return the risk-coverage curve. Parameters as in `aurc`.

    Examples
    --------
    >>> curve = risk_coverage(np.array([True, False]), np.array([0.9, 0.6]))
    >>> curve.coverage, curve.risk
    (array([0.5, 1. ]), array([0. , 0.5]))
    """
    return compute_risk_coverage(check_scores(y, proba, sample_weight))


def compute_risk_coverage(scores: Scores) -> RiskCoverage:
    """See `risk_coverage`."""
    right, wrong = _cumulate(lambda *counts: counts, scores, scores.weight, scores.correct)
    total = right + wrong
    used = np.diff(total, prepend=0.0) > 0
    ranked = scores.confidence[scores.order][::-1]
    threshold = ranked[np.diff(ranked, append=-1.0) < 0]
    return RiskCoverage(threshold[used], total[used] / total[-1], wrong[used] / total[used])


def compute_aurc(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `aurc`.

    S samples of equal confidence, E of them wrong, after N samples with C wrong, add
    E + (C - N E / S) (H(N + S) - H(N)), where H are the harmonic numbers.
    """
    from scipy.special import digamma

    def value(right: FloatArray, wrong: FloatArray) -> float:
        total = right + wrong
        size, errors = np.diff(total, prepend=0.0), np.diff(wrong, prepend=0.0)
        before, errors_before = total - size, wrong - errors
        span = digamma(total + 1) - digamma(before + 1)
        rate = errors / np.where(size > 0, size, 1.0)
        return float((errors + (errors_before - before * rate) * span).sum() / total[-1])

    return _cumulate(value, scores, weights, scores.correct)


def compute_ood_mean_confidence(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """Return the mean confidence of OOD samples."""
    return mean(scores.confidence[scores.is_ood], weights[scores.is_ood])


def detector(statistic: Statistic, positive: Positive) -> Callable[..., Any]:
    """Return a metric of how well the confidence separates two kinds of samples.

    Right and in-distribution samples are expected to have high confidence, wrong and OOD samples
    low confidence. The metric is NaN unless both kinds of samples occur.
    """

    def value(true: FloatArray, false: FloatArray) -> float:
        return statistic(true, false) if true[-1] > 0 and false[-1] > 0 else np.nan

    def compute(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
        is_high = scores.correct if positive in ("right", "wrong") else ~scores.is_ood
        is_low = positive in ("wrong", "ood")
        return _cumulate(value, scores, weights, is_high ^ is_low, ascending=is_low)

    return compute


def _detect(
    statistic: Statistic, positive: Positive, flags: Any, values: Any, name: str = "is_id"
) -> float:
    is_high, values = np.asarray(flags), np.asarray(values, dtype=np.float64)
    if is_high.dtype.kind != "b" or is_high.ndim != 1 or not len(is_high):
        raise InputError(
            f"{name} must be booleans of shape (n_samples,), got {is_high.dtype} {is_high.shape}."
            " Try labels == 1.",
            name,
        )
    if values.shape != is_high.shape or not np.isfinite(values).all():
        raise InputError(
            f"scores must be finite numbers of shape {is_high.shape}, got {values.shape}.", "scores"
        )
    weights = np.ones(len(values))
    return defined(detector(statistic, positive)(Scores(values, is_high, weights), weights))


def _cumulate(
    function: Callable[[FloatArray, FloatArray], Any],
    scores: Scores,
    weights: FloatArray,
    positive: BoolArray,
    *,
    ascending: bool = False,
) -> Any:
    """Return a function of the weights of positives and negatives, cumulated over the samples.

    The samples are sorted by confidence, by default the highest first. The arguments of the
    function have one entry for each distinct confidence.
    """
    order = scores.order if ascending else scores.order[::-1]
    positive = positive[order]
    last = np.append(np.flatnonzero(np.diff(scores.confidence[order])), len(order) - 1)

    def value(w: FloatArray) -> Any:
        w = w[order]
        true = np.cumsum(w * positive)[last]
        return function(true, np.cumsum(w)[last] - true)

    return per_replicate(value, weights)


def area(true: FloatArray, false: FloatArray) -> float:
    """Return the AUROC of a curve."""
    below = np.trapezoid(np.append(0.0, true), np.append(0.0, false))
    return float(below / (true[-1] * false[-1]))


def average_precision(true: FloatArray, false: FloatArray) -> float:
    """Return the sum of precisions times gains in recall of a curve."""
    total = true + false
    precision = true / np.where(total > 0, total, 1.0)
    return float((np.diff(true, prepend=0.0) * precision).sum() / true[-1])


def false_positive_rate(true: FloatArray, false: FloatArray) -> float:
    """Return the false positive rate of a curve at a recall of 95 %."""
    # 0.95 is not a binary number: whole counts are compared.
    return float(false[np.argmax(100 * true >= 95 * true[-1])] / false[-1])
