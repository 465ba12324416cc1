"""`Scores`: checked predictions and labels, the input of metrics; helpers for weighted sums."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import BoolArray, FloatArray, IntArray
from wildcal.core.exceptions import InputError
from wildcal.core.labels import OOD_LABEL
from wildcal.core.validation import check_input, check_labels, check_number, check_weight, warn

Compute: TypeAlias = Callable[..., Any]
"""``compute(scores, weights, *, n_bins=15)``: weights (n,) give a number, (n, B) give (B,)."""

MAX_BINS: Final = 10_000
# The smallest probability of the true class in the log loss, the value of the published code.
_SMALLEST: Final = 1e-34
# Entries of a block of probabilities.
_BLOCK_ENTRIES: Final = 1 << 20


@dataclass(frozen=True, eq=False)
class Scores:
    """Predictions of n samples, checked. Made by `check_scores`."""

    confidence: FloatArray
    """Probability of the predicted class."""
    correct: BoolArray
    """Whether the predicted class is the label; false for OOD samples."""
    weight: FloatArray
    """Counts: a weight of 2 is equivalent to repeating the sample."""
    y: IntArray | None = None
    """Labels, -1 for OOD samples; None if only `correct` is known."""
    proba: NDArray[Any] | None = None
    """Probabilities (n, K) as they were given, not copied."""
    predicted: IntArray | None = None
    """Argmax of the probabilities."""
    uncalibrated: IntArray | None = None
    """Predicted classes without calibration, where they may differ."""

    def __len__(self) -> int:
        return len(self.confidence)

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 if it is not known."""
        return 0 if self.proba is None else int(self.proba.shape[1])

    @property
    def gap(self) -> FloatArray:
        """Confidence minus 1 where correct, minus 0 elsewhere."""
        return self.confidence - self.correct

    @cached_property
    def is_ood(self) -> BoolArray:
        """Whether a sample is out of distribution."""
        if self.y is None:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self.y == OOD_LABEL)

    @cached_property
    def log_loss(self) -> FloatArray:
        """Negative log of the probability of the label."""
        return np.asarray(-np.log(np.clip(self._true_proba, _SMALLEST, 1)))

    @cached_property
    def squared_error(self) -> FloatArray:
        """Squared distance of the probabilities to the one-hot label."""
        squares = np.concatenate([np.einsum("ij,ij->i", p, p) for p in self.blocks()])
        return np.asarray(np.maximum(squares - 2 * self._true_proba + 1, 0))

    @cached_property
    def order(self) -> IntArray:
        """Indices that sort the samples by confidence."""
        return np.argsort(self.confidence)

    def blocks(self) -> Iterator[FloatArray]:
        """Yield the probabilities in blocks of samples, in float64."""
        proba = self._proba()
        size = max(1, _BLOCK_ENTRIES // proba.shape[1])
        for start in range(0, len(proba), size):
            yield np.asarray(proba[start : start + size], dtype=np.float64)

    def subset(self, chosen: NDArray[Any]) -> Self:
        """Return the samples at a mask or at indices."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {k: v[chosen] for k, v in columns.items() if isinstance(v, np.ndarray)}
        return replace(self, **arrays)

    @property
    def in_distribution(self) -> Self:
        """The in-distribution samples."""
        return self._in_distribution if self.is_ood.any() else self

    @cached_property
    def _in_distribution(self) -> Self:
        return self.subset(~self.is_ood)

    @cached_property
    def positive(self) -> "Scores":
        """The class 1 of two as an event: its probability, and whether it occurred."""
        proba, y = self._proba(), self.y
        if proba.shape[1] != 2 or y is None:
            raise InputError(f"proba must have 2 columns, got {proba.shape[1]}.", "proba")
        return Scores(np.asarray(proba[:, 1], dtype=np.float64), y == 1, self.weight)

    @cached_property
    def _true_proba(self) -> FloatArray:
        proba = self._proba()
        assert self.y is not None
        return proba[np.arange(len(proba)), np.maximum(self.y, 0)].astype(np.float64)

    def _proba(self) -> NDArray[Any]:
        if self.proba is None:
            raise InputError(
                "proba must have shape (n_samples, n_classes) for this metric, got one number per"
                " sample.",
                "proba",
            )
        return self.proba


class Curve:
    """A dataclass of arrays."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, None where a number is not defined."""
        found = vars(self).copy()
        for name, value in found.items():
            if isinstance(value, np.ndarray):
                found[name] = [None if np.isnan(v) else v for v in value.tolist()]
        return found


def check_scores(y: Any, proba: Any, sample_weight: Any = None) -> Scores:
    """Return checked `Scores`.

    Parameters
    ----------
    y, proba
        Labels (n,), -1 for OOD samples, and probabilities (n, K); or booleans (n,), whether the
        prediction was right, and confidences (n,).
    sample_weight
        Counts (n,): a weight of 2 is equivalent to repeating the sample.
    """
    is_confidence = np.ndim(proba) == 1
    array = check_input(proba, "confidence" if is_confidence else "proba", name="proba")
    labels: Any = _check_correct(y) if is_confidence else check_labels(y, array.shape[1])
    n = len(array)
    if labels.shape != (n,):
        raise InputError(f"y must have one label per sample, got {labels.shape} for {n}.", "y")
    weight, notes = check_weight(sample_weight, n)
    for note in notes:
        warn(note, level=5)
    if is_confidence:
        return Scores(np.minimum(array.astype(np.float64), 1.0), labels, weight)
    predicted = array.argmax(axis=1)
    top = np.minimum(array[np.arange(n), predicted].astype(np.float64), 1.0)
    return Scores(top, predicted == labels, weight, labels, array, predicted)


def _check_correct(y: Any) -> BoolArray:
    correct = np.asarray(y)
    if correct.dtype.kind != "b":
        raise InputError(
            "y must be booleans (whether the prediction was right) if the second argument is"
            f" one-dimensional, got dtype {correct.dtype}. Try y.astype(bool) for (correct,"
            " confidence), or np.column_stack([1 - p, p]) for the probability p of class 1.",
            "y",
        )
    return correct


def measure(
    compute: Compute, y: Any, proba: Any, sample_weight: Any, *, ood: bool = True, **options: Any
) -> float:
    """Return a metric of all samples, or without OOD samples; NaN with a warning if undefined."""
    if "n_bins" in options:
        check_number("n_bins", options["n_bins"], 1, MAX_BINS, whole=True)
    scores = check_scores(y, proba, sample_weight)
    if not ood:
        scores = scores.in_distribution
    return defined(compute(scores, scores.weight, **options) if len(scores) else np.nan)


def defined(value: Any) -> float:
    """Return a metric as a float, with a warning if it is NaN."""
    if np.isnan(value):
        warn("the metric is not defined for these samples and is NaN.", level=5)
    return float(value)


def per_replicate(function: Callable[[FloatArray], Any], weights: NDArray[Any]) -> Any:
    """Return `function(weights)`, or its values for each column of weights (n, B)."""
    if weights.ndim == 1:
        return function(weights)
    return np.array([function(w) for w in np.ascontiguousarray(weights.T, dtype=np.float64)])


def mean(column: NDArray[Any], weights: NDArray[Any]) -> Any:
    """Return the weighted mean of a column: a number, or shape (B,)."""
    return column.astype(weights.dtype, copy=False) @ weights / total(weights)


def total(weights: NDArray[Any]) -> Any:
    """Return the sum of weights: a number, or shape (B,)."""
    return np.ones(len(weights), weights.dtype) @ weights  # much faster than sum(axis=0)


def bin_sums(
    values: NDArray[Any], index: IntArray, n_bins: int, weights: NDArray[Any]
) -> NDArray[Any]:
    """Return the weighted sums of values by bin, shape (n_bins,) or (n_bins, B)."""
    if weights.ndim == 1:
        return np.bincount(index, values * weights, n_bins)
    from scipy.sparse import csc_array  # slow to import

    n = len(values)
    one_hot = (values.astype(weights.dtype), index, np.arange(n + 1))
    return np.asarray(csc_array(one_hot, shape=(n_bins, n)) @ weights)


def bin_index(confidence: FloatArray, n_bins: int) -> IntArray:
    """Return the equal-width bin (lo, hi] of each confidence; 0 belongs to the first.

    Examples
    --------
    >>> bin_index(np.array([0.0, 0.25, 0.2500001, 1.0]), 4)
    array([0, 0, 1, 3])
    """
    return np.digitize(confidence, np.linspace(0.0, 1.0, n_bins + 1)[1:-1], right=True)
