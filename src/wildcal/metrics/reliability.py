"""Reliability curves, binned and by isotonic regression, and the parts of proper scores."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, IntArray
from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice, check_number
from wildcal.metrics._scores import MAX_BINS, Curve, Scores, bin_index, bin_sums, check_scores
from wildcal.metrics.proper import compute_brier_score, compute_nll


@dataclass(frozen=True, eq=False)
class Reliability(Curve):
    """Mean confidence and accuracy in each bin (edges[b], edges[b + 1]].

    Empty bins have count 0 and NaN elsewhere. `low` and `high` are Wilson intervals of the
    accuracy.
    """

    edges: FloatArray
    count: FloatArray
    """Samples in each bin, the sum of their weights."""
    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    level: float

    @classmethod
    def of_sums(
        cls, count: FloatArray, confidence: FloatArray, correct: FloatArray, level: float
    ) -> "Reliability":
        """Return the curve of sums over the samples of each bin."""
        n = np.where(count > 0, count, np.nan)
        low, high = wilson_interval(correct, count, level)
        edges = np.linspace(0, 1, len(count) + 1)
        return cls(edges, count, confidence / n, correct / n, low, high, level)

    @property
    def ece(self) -> float:
        """The expected calibration error."""
        filled = self.count > 0
        gap = np.abs(self.confidence - self.accuracy)[filled]
        return float(np.average(gap, weights=self.count[filled]))


@dataclass(frozen=True, eq=False)
class IsotonicReliability(Curve):
    """The reliability curve by isotonic regression (CORP): steps without bins.

    Each step is a block of the pool-adjacent-violators algorithm.
    """

    low: FloatArray
    """Smallest confidence of each step."""
    high: FloatArray
    """Largest confidence of each step."""
    accuracy: FloatArray
    """Accuracy in the step, increasing."""
    count: FloatArray
    """Samples in the step, the sum of their weights."""


@dataclass(frozen=True)
class Decomposition:
    """score = miscalibration - discrimination + uncertainty."""

    score: float
    miscalibration: float
    """Score minus that of recalibrated probabilities; 0 for calibrated ones."""
    discrimination: float
    """Score of the class frequencies minus that of recalibrated probabilities; higher is better."""
    uncertainty: float
    """Score of the class frequencies, the same for every model."""

    def to_dict(self) -> dict[str, float]:
        """Return the parts by name."""
        return asdict(self)


def reliability(
    y: Any, proba: Any, *, n_bins: int = 15, level: float = 0.95, sample_weight: Any = None
) -> Reliability:
    """Return confidence, accuracy and its Wilson interval in bins of equal width.

    For the probability p of class 1 of two, pass ``y == 1`` and p. Parameters as in `ece`;
    `level` is that of the intervals.

    Examples
    --------
    >>> table = reliability(np.array([True, False, True]), np.array([0.3, 0.9, 0.8]), n_bins=2)
    >>> table.count, table.accuracy
    (array([1., 2.]), array([1. , 0.5]))
    """
    check_number("n_bins", n_bins, 1, MAX_BINS, whole=True)
    check_number("level", level, 0.01, 0.9999)
    scores = check_scores(y, proba, sample_weight)
    return compute_reliability(scores, n_bins=n_bins, level=level)


def isotonic_reliability(y: Any, proba: Any, *, sample_weight: Any = None) -> IsotonicReliability:
    """Return the reliability curve by isotonic regression (CORP). Parameters as in `ece`.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), "Stable reliability diagrams for probabilistic
    classifiers", PNAS.

    Examples
    --------
    >>> curve = isotonic_reliability(np.array([False, True, False, True]), [0.1, 0.4, 0.6, 0.9])
    >>> curve.low, curve.accuracy
    (array([0.1, 0.4, 0.9]), array([0. , 0.5, 1. ]))
    """
    return compute_isotonic_reliability(check_scores(y, proba, sample_weight))


def decompose(
    y: Any, proba: Any, *, score: Literal["nll", "brier_score"] = "nll", sample_weight: Any = None
) -> Decomposition:
    """Return the parts of the NLL or the Brier score by isotonic recalibration.

    With S the score, p the probabilities, q the recalibrated ones and f the class frequencies:
    miscalibration = S(p) - S(q), discrimination = S(f) - S(q), uncertainty = S(f).

    q is the isotonic regression of y = k on the probability of class k. With one event (two
    classes, or confidences) both parts are at least 0. So they are for the Brier score of any
    number of classes, which is a sum over classes. For the NLL of more than two classes, q is
    divided by its sum over classes, and the miscalibration of well calibrated probabilities may be
    slightly negative. q is fitted on the same samples: with few samples both parts are too large.

    Parameters
    ----------
    y, proba
        Labels (n,) and probabilities (n, K), or booleans (n,), whether the prediction was right,
        and confidences (n,). OOD samples (y = -1) are left out.
    score
        "nll" or "brier_score". With confidences, the Brier score is (confidence - correct)^2.
    sample_weight
        Counts (n,): a weight of 2 is equivalent to repeating the sample.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), "Stable reliability diagrams for probabilistic
    classifiers", PNAS.

    Examples
    --------
    >>> parts = decompose(np.array([True, False, True, False]), [0.9, 0.9, 0.6, 0.1],
    ...                   score="brier_score")
    >>> parts.uncertainty
    0.25
    >>> bool(np.isclose(parts.score, parts.miscalibration - parts.discrimination + 0.25))
    True
    """
    check_choice("score", score, ("nll", "brier_score"))
    scores = check_scores(y, proba, sample_weight)
    scores = scores.subset(~scores.is_ood & (scores.weight > 0))
    if not len(scores):
        raise InputError("y must contain in-distribution samples, got none.", "y")
    scale = 1.0
    if scores.y is None:  # two classes: wrong and right
        scale = 0.5 if score == "brier_score" else 1.0
        two = np.column_stack([1 - scores.confidence, scores.confidence])
        scores = replace(scores, y=scores.correct.astype(np.int64), proba=two)
    w = scores.weight
    p = np.concatenate(list(scores.blocks()))
    t = (np.asarray(scores.y)[:, None] == np.arange(scores.n_classes)).astype(np.float64)
    q = np.empty_like(p)
    for k in range(scores.n_classes):
        _, step, fitted = _isotonic(p[:, k], t[:, k], w)
        q[:, k] = fitted.x[step]
    f = np.broadcast_to(w @ t / w.sum(), t.shape)
    if score == "nll" and scores.n_classes > 2:
        q = q / q.sum(axis=1, keepdims=True)
    compute = compute_nll if score == "nll" else compute_brier_score
    of_p, of_q, of_f = (scale * float(compute(replace(scores, proba=x), w)) for x in (p, q, f))
    return Decomposition(of_p, of_p - of_q, of_f - of_q, of_f)


def compute_reliability(scores: Scores, *, n_bins: int = 15, level: float = 0.95) -> Reliability:
    """See `reliability`."""
    index = bin_index(scores.confidence, n_bins)
    columns = (np.ones(len(scores)), scores.confidence, scores.correct)
    count, confidence, correct = (bin_sums(c, index, n_bins, scores.weight) for c in columns)
    return Reliability.of_sums(count, confidence, correct, level)


def compute_isotonic_reliability(scores: Scores) -> IsotonicReliability:
    """See `isotonic_reliability`."""
    used = scores.weight > 0
    values, _, steps = _isotonic(scores.confidence[used], scores.correct[used], scores.weight[used])
    first, last = steps.blocks[:-1], steps.blocks[1:] - 1
    return IsotonicReliability(values[first], values[last], steps.x[first], steps.weights)


def _isotonic(x: FloatArray, y: NDArray[Any], w: FloatArray) -> tuple[FloatArray, IntArray, Any]:
    """Return distinct x, the index of each sample among them, and the result of SciPy."""
    from scipy.optimize import isotonic_regression

    values, group = np.unique(x, return_inverse=True)
    weight = np.bincount(group, w)
    return values, group, isotonic_regression(np.bincount(group, w * y) / weight, weights=weight)


def wilson_interval(
    successes: FloatArray, trials: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the limits of the Wilson score interval of a proportion; NaN without trials.

    References
    ----------
    Wilson (1927), "Probable inference, the law of succession, and statistical inference", JASA.

    Examples
    --------
    >>> low, high = wilson_interval(np.array([8.0]), np.array([10.0]), 0.95)
    >>> low.round(3), high.round(3)
    (array([0.49]), array([0.943]))
    """
    from statistics import NormalDist  # slow to import

    z2 = NormalDist().inv_cdf(0.5 + level / 2) ** 2
    n = np.where(trials > 0, trials, np.nan)
    rate = successes / n
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(rate * (1 - rate) * z2 / n + (z2 / (2 * n)) ** 2) / (1 + z2 / n)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
