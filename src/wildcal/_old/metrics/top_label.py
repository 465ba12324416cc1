"""Metrics of the predicted class: accuracy, confidence and the binned calibration errors.

All of them are read off one small table of sums per bin, so that any number of rows can be
streamed through `TopLabelAccumulator`; the functions are one update and one question.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.checks import MOST_BINS, check_count, check_level
from wildcal._old.metrics.accumulator import Accumulator
from wildcal._old.metrics.binning import bin_edges, bin_index
from wildcal._old.metrics.inputs import top_label, top_label_chunks, undefined
from wildcal._old.metrics.reliability import Reliability, wilson_interval


class TopLabelAccumulator(Accumulator):
    """Top-label metrics of rows that arrive piece by piece, in constant memory.

    Sums are float64 whatever the input, so ten million float32 rows lose nothing.

    Parameters
    ----------
    n_bins
        Number of equal-width bins (lo, hi].

    Examples
    --------
    >>> seen = TopLabelAccumulator(n_bins=10)
    >>> seen.update([0, 1], np.array([[0.9, 0.1], [0.6, 0.4]])).n
    2
    >>> seen.update(np.array([True]), np.array([0.75])).accuracy()
    0.6666666666666666
    """

    _settings = ("n_bins",)
    _sums = ("count", "confidence_sum", "correct_sum", "squared_error")

    def __init__(self, n_bins: int = 15) -> None:
        self.n_bins = check_count("n_bins", n_bins, most=MOST_BINS)
        self.count: NDArray[np.int64] = np.zeros(self.n_bins, dtype=np.int64)
        self.confidence_sum: FloatArray = np.zeros(self.n_bins)
        self.correct_sum: NDArray[np.int64] = np.zeros(self.n_bins, dtype=np.int64)
        self.squared_error: FloatArray = np.zeros(())

    def update(self, y: ArrayLike, proba: ArrayLike, pred: ArrayLike | None = None) -> Self:
        """Take in rows, as (y, proba) or as (correct, confidence), and return self."""
        new, size = self._fresh(), self.n_bins
        for correct, confidence in top_label_chunks(y, proba, pred):
            index = bin_index(confidence, size)
            new.confidence_sum += np.bincount(index, confidence, size)
            index += index
            index += correct
            wrong, right = np.bincount(index, minlength=2 * size).reshape(-1, 2).T
            new.count += wrong + right
            new.correct_sum += right
            gap = np.subtract(confidence, correct, out=confidence)  # which is ours
            new.squared_error += np.einsum("i,i", gap, gap)  # threads of `@` add in another order
        return self.merge(new)

    @property
    def n(self) -> int:
        """The number of rows seen."""
        return int(self.count.sum())

    def accuracy(self) -> float:
        """Return the share of rows whose predicted class was right."""
        return float(self.correct_sum.sum() / self.n) if self.n else undefined("accuracy")

    def mean_confidence(self) -> float:
        """Return the mean probability given to the predicted class."""
        return float(self.confidence_sum.sum() / self.n) if self.n else undefined("mean_confidence")

    def top_label_brier(self) -> float:
        """Return the mean of (confidence - correct)²."""
        return float(self.squared_error / self.n) if self.n else undefined("top_label_brier")

    def ece(self) -> float:
        """Return the expected calibration error."""
        n = self.n
        return (
            float(np.abs(self.confidence_sum - self.correct_sum).sum() / n)
            if n
            else undefined("ece")
        )

    def mce(self, *, min_count: int = 1) -> float:
        """Return the maximum calibration error among bins of at least `min_count` rows."""
        used = self.count >= check_count("min_count", min_count)
        if not used.any():
            return undefined("mce", f"no bin has {min_count} rows")
        gap = (self.confidence_sum - self.correct_sum)[used] / self.count[used]
        return float(np.abs(gap).max())

    def reliability(self, *, level: float = 0.95) -> Reliability:
        """Return the table of mean confidence and accuracy per bin."""
        n = np.where(self.count > 0, self.count, np.nan)
        hits = self.correct_sum.astype(np.float64)
        low, high = wilson_interval(hits, self.count.astype(np.float64), check_level(level))
        return Reliability(
            edges=bin_edges(self.n_bins),
            count=self.count.copy(),
            confidence=self.confidence_sum / n,
            accuracy=hits / n,
            low=low,
            high=high,
            level=level,
        )


def accuracy(y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None) -> float:
    """Return the share of rows whose predicted class is the label; rows with y = -1 are wrong.

    Parameters
    ----------
    y, proba
        Integer labels (n,) in [-1, K-1] and probabilities (n, K); or a boolean `correct` (n,) and
        confidences (n,).
    pred
        Predicted classes (n,), best taken from the raw logits. Default: argmax of each row of
        `proba`, the first on ties.

    Examples
    --------
    >>> accuracy([0, 1, 1, -1], np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.9, 0.1]]))
    0.5
    """
    return TopLabelAccumulator(1).update(y, proba, pred).accuracy()


def mean_confidence(y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None) -> float:
    """Return the mean probability given to the predicted class.

    On out-of-distribution rows alone (y = -1) this is also their ECE, because nothing is right
    there. Parameters as in `accuracy`.

    Examples
    --------
    >>> mean_confidence([-1, -1], np.array([[0.75, 0.25], [0.5, 0.5]]))
    0.625
    """
    return TopLabelAccumulator(1).update(y, proba, pred).mean_confidence()


def ece(
    y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None, n_bins: int = 15
) -> float:
    """Return the expected calibration error, a fraction in [0, 1].

    ECE = Σ_b (n_b / n) · |mean confidence in b - accuracy in b| over equal-width bins. A bin is
    (lo, hi] with float64 edges; confidence 0 goes to the first bin. Always at least the absolute
    difference of mean confidence and accuracy. A perfectly calibrated model still scores about
    `noise_floor`, so compare with that or use `excess_ece` on small samples.

    Parameters
    ----------
    y, proba
        Integer labels (n,) in [-1, K-1] and probabilities (n, K); or a boolean `correct` (n,) and
        confidences (n,). Rows with y = -1 count as wrong.
    pred
        Predicted classes (n,), best taken from the raw logits. Default: argmax of each row of
        `proba`, the first on ties.
    n_bins
        Number of bins.

    Returns
    -------
    float
        NaN, with a warning, if there are no rows.

    References
    ----------
    Guo et al. (2017), "On calibration of modern neural networks".

    Examples
    --------
    >>> correct = np.array([True, False, True, True])
    >>> round(ece(correct, np.array([0.55, 0.65, 0.95, 0.95]), n_bins=10), 12)
    0.3
    """
    return TopLabelAccumulator(n_bins).update(y, proba, pred).ece()


def mce(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    n_bins: int = 15,
    min_count: int = 1,
) -> float:
    """Return the maximum calibration error: the largest gap of a bin, never below `ece`.

    MCE = max_b |mean confidence in b - accuracy in b| over bins with at least `min_count` rows.
    With `min_count=1` one odd row decides the value; 20 or more makes it readable, but the value
    may then be below `ece`, since the small bins no longer count. Other parameters as in `ece`.

    References
    ----------
    Naeini et al. (2015), "Obtaining well calibrated probabilities using Bayesian binning".

    Examples
    --------
    >>> correct = np.array([True, False, True, True])
    >>> mce(correct, np.array([0.55, 0.65, 0.95, 0.95]), n_bins=10)
    0.65
    """
    return TopLabelAccumulator(n_bins).update(y, proba, pred).mce(min_count=min_count)


def top_label_brier(y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None) -> float:
    """Return the mean of (confidence - correct)², in [0, 1]; rows with y = -1 are wrong.

    Parameters as in `ece`. Unlike `brier` it looks at the predicted class alone.

    Examples
    --------
    >>> top_label_brier(np.array([True, False]), np.array([0.5, 0.5]))
    0.25
    """
    return TopLabelAccumulator(1).update(y, proba, pred).top_label_brier()


def top_label_brier_per_sample(
    y: ArrayLike, proba: ArrayLike, *, pred: ArrayLike | None = None
) -> FloatArray:
    """Return (confidence - correct)² of every row; their mean is `top_label_brier`.

    Examples
    --------
    >>> top_label_brier_per_sample(np.array([True, False]), np.array([0.5, 1.0]))
    array([0.25, 1.  ])
    """
    correct, confidence = top_label(y, proba, pred)
    return np.asarray((confidence - correct) ** 2)


def reliability(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    n_bins: int = 15,
    level: float = 0.95,
) -> Reliability:
    """Return mean confidence, accuracy and its Wilson interval in every bin.

    All `n_bins` bins are there; an empty one has count 0 and NaN elsewhere. `level` is that of the
    intervals; other parameters as in `ece`.

    Examples
    --------
    >>> table = reliability(np.array([True, False, True]), np.array([0.3, 0.9, 0.8]), n_bins=2)
    >>> table.count, table.accuracy
    (array([1, 2]), array([1. , 0.5]))
    """
    return TopLabelAccumulator(n_bins).update(y, proba, pred).reliability(level=level)
