"""What one pass over some rows collected: all that any metric is computed from, and resampled."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wildcal._old.core.arrays import BoolArray, FloatArray, Labels, Proba
from wildcal._old.metrics.accumulator import Accumulator
from wildcal._old.metrics.top_label import TopLabelAccumulator

Look = Callable[[Labels, Proba, slice], Any]
"""A function of some rows: their labels, their probabilities, and their place among all rows."""


@dataclass(slots=True)
class Seen:
    """One method on one set of rows."""

    correct: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether the class of the largest logit was right; rows without a class are apart."""
    confidence: FloatArray = field(default_factory=lambda: np.empty(0))
    """The probability of that class, float64."""
    top: TopLabelAccumulator = field(default_factory=TopLabelAccumulator)
    """Both, by bins."""
    floor: float = float("nan")
    """The ECE of a perfectly calibrated model with these confidences, where it was asked for."""
    columns: dict[str, FloatArray] = field(default_factory=dict)
    """A number for each row, read off its probabilities, by the name of the metric."""
    sums: dict[str, Accumulator] = field(default_factory=dict)
    """Sums over the rows, of metrics that need more than a number for each."""
    ood: FloatArray = field(default_factory=lambda: np.empty(0))
    """The confidence on rows of no class."""
    scores: tuple[FloatArray, FloatArray] | None = None
    """The confidences to tell known rows from others by; None for the two above."""
    again: Callable[[Look], list[Any]] | None = None
    """Calls a function with the probabilities of the rows once more, piece by piece."""

    @property
    def n_bins(self) -> int:
        """The number of bins of the binned errors."""
        return self.top.n_bins

    @property
    def told_apart(self) -> tuple[FloatArray, FloatArray]:
        """The confidences of known rows and of others."""
        return (self.confidence, self.ood) if self.scores is None else self.scores


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each row is drawn: a column for each replicate."""

    known: FloatArray
    """Shape (rows, replicates)."""
    ood: FloatArray
    """The same of rows of no class."""
