"""What the confidences of the last rows of a stream were like, older ones counting less."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray

BINS: Final = 20
# A row counts half after about 700 further ones.
_FORGET: Final = 1e-3
# Rows that wait to be counted.
_MOST_WAITING: Final = 256


class Recent:
    """The mean and a histogram of confidences; they are counted when somebody asks.

    Examples
    --------
    >>> recent = Recent()
    >>> recent.add(np.array([0.5, 0.7]))
    >>> round(recent.mean, 6)
    0.6
    """

    def __init__(self, mean: float = float("nan")) -> None:
        self._mean, self._begun = mean, mean == mean
        self._histogram = np.zeros(BINS)
        self._waiting: list[NDArray[Any]] = []
        self._rows = 0

    def add(self, confidence: NDArray[Any]) -> None:
        """Take note of the confidences of some rows."""
        self._waiting.append(confidence)
        self._rows += len(confidence)
        if self._rows >= _MOST_WAITING:
            self._count()

    @property
    def mean(self) -> float:
        """The mean; NaN before the first row."""
        self._count()
        return self._mean

    @property
    def histogram(self) -> FloatArray:
        """Shares of the confidences in bins of the same width."""
        self._count()
        return self._histogram

    def _count(self) -> None:
        if not self._waiting:
            return
        rows = np.minimum(np.concatenate(self._waiting).astype(np.float64), 1.0)
        self._waiting, self._rows = [], 0
        weight = _FORGET * (1 - _FORGET) ** np.arange(len(rows) - 1.0, -1.0, -1.0)
        if not self._begun:
            weight /= weight.sum()
        kept = 1.0 - float(weight.sum()) if self._begun else 0.0
        counts = np.histogram(rows, BINS, (0.0, 1.0), weights=weight)[0]
        self._histogram = kept * self._histogram + counts
        self._mean = float(rows @ weight) + (kept * self._mean if self._begun else 0.0)
        self._begun = True
