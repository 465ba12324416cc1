"""How well a score separates two kinds of samples, and prediction with abstention."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import FloatArray
from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice
from wildcal.metrics._scores import (
    BoolArray,
    Curve,
    Scores,
    check_scores,
    defined,
    mean,
    measure,
    per_replicate,
)

Statistic: TypeAlias = Callable[[FloatArray, FloatArray], float]
"""A number of the weights of positives and negatives at or above each distinct score."""
Counter: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


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
    flags, values = _checked(positive, scores, "positive")
    return _detect(area, flags, values)


def aupr_in(is_id: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision of finding in-distribution samples by high scores.

    AP is the sum of (recall_n - recall_(n-1)) precision_n over distinct scores. A useless score
    has the fraction of in-distribution samples. Arguments as in `auroc`, `is_id` the positives.

    Examples
    --------
    >>> round(aupr_in(np.array([True, False, True]), [0.9, 0.5, 0.1]), 4)  # (1/1 + 2/3) / 2
    0.8333
    """
    flags, values = _checked(is_id, scores, "is_id")
    return _detect(average_precision, flags, values)


def aupr_out(is_id: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision of finding OOD samples by low scores.

    Examples
    --------
    >>> aupr_out(np.array([True, False, True]), [0.9, 0.5, 0.1])
    0.5
    """
    flags, values = _checked(is_id, scores, "is_id")
    return _detect(average_precision, ~flags, -values)


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
    flags, values = _checked(is_id, scores, "is_id")
    if positive == "ood":
        flags, values = ~flags, -values
    return _detect(false_positive_rate, flags, values)


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
    scores = check_scores(y, proba, sample_weight)
    return compute_risk_coverage(scores, scores.weight)


def compute_risk_coverage(scores: Scores, weights: FloatArray) -> RiskCoverage:
    """See `risk_coverage`."""
    threshold, curve = _curve(scores.correct, scores.confidence)
    right, wrong = curve(weights)
    total = right + wrong
    used = np.diff(total, prepend=0.0) > 0
    coverage, risk = total[used] / total[-1], wrong[used] / total[used]
    return RiskCoverage(threshold[used], coverage, risk)


def compute_aurc(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """See `aurc`.

    S samples of equal confidence, E of them wrong, after N samples with C wrong, add
    E + (C - N E / S) (H(N + S) - H(N)), where H are the harmonic numbers.
    """
    from scipy.special import digamma

    order = scores.order[::-1]
    wrong = ~scores.correct[order]
    starts = np.flatnonzero(np.diff(scores.confidence[order], prepend=2.0))

    def value(w: FloatArray) -> float:
        w = w[order]
        size = np.add.reduceat(w, starts)
        errors = np.add.reduceat(w * wrong, starts)
        upto = np.cumsum(size)
        before, errors_before = upto - size, np.cumsum(errors) - errors
        span = digamma(upto + 1) - digamma(before + 1)
        rate = errors / np.where(size > 0, size, 1.0)
        return float((errors + (errors_before - before * rate) * span).sum() / upto[-1])

    return per_replicate(value, weights)


def compute_ood_mean_confidence(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
    """Return the mean confidence of OOD samples."""
    return mean(scores.confidence[scores.is_ood], weights[scores.is_ood])


def detector(
    statistic: Statistic, positive: Literal["right", "wrong", "id", "ood"]
) -> Callable[..., Any]:
    """Return a metric: how well the confidence separates some samples from the others.

    Right and in-distribution samples are expected to have high confidence, wrong and OOD samples
    low confidence.
    """

    def compute(scores: Scores, weights: FloatArray, *, n_bins: int = 15) -> Any:
        is_high = scores.correct if positive in ("right", "wrong") else ~scores.is_ood
        is_low = positive in ("wrong", "ood")
        values = -scores.confidence if is_low else scores.confidence
        _, curve = _curve(is_high ^ is_low, values)
        return per_replicate(lambda w: _of_curve(statistic, *curve(w)), weights)

    return compute


def _detect(statistic: Statistic, positive: BoolArray, values: FloatArray) -> float:
    _, curve = _curve(positive, values)
    return defined(_of_curve(statistic, *curve(np.ones(len(values)))))


def _curve(positive: BoolArray, values: FloatArray) -> tuple[FloatArray, Counter]:
    """Return the distinct scores, and a function of weights: those at or above each score."""
    order = np.argsort(-values)
    positive, values = positive[order], values[order]
    last = np.append(np.flatnonzero(np.diff(values)), len(values) - 1)

    def curve(w: FloatArray) -> tuple[FloatArray, FloatArray]:
        w = w[order]
        true, both = np.cumsum(w * positive)[last], np.cumsum(w)[last]
        return true, both - true

    return values[last], curve


def _of_curve(statistic: Statistic, true: FloatArray, false: FloatArray) -> float:
    return statistic(true, false) if true[-1] > 0 and false[-1] > 0 else np.nan


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


def _checked(flags: ArrayLike, scores: ArrayLike, name: str) -> tuple[BoolArray, FloatArray]:
    positive, values = np.asarray(flags), np.asarray(scores, dtype=np.float64)
    if positive.dtype.kind != "b" or positive.ndim != 1 or not len(positive):
        raise InputError(
            f"{name} must be booleans of shape (n_samples,), got {positive.dtype}"
            f" {positive.shape}. Try labels == 1.",
            name,
        )
    if values.shape != positive.shape or not np.isfinite(values).all():
        raise InputError(
            f"scores must be finite numbers of shape {positive.shape}, got {values.shape}.",
            "scores",
        )
    return positive, values
