"""What the confidences of the last rows of a stream were like, older ones counting less."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import FloatArray

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
    >>> round(recent.mean, 4)
    0.6001
    """

    def __init__(self, mean: float | None = None) -> None:
        """Begin with nothing, or with a mean of many rows."""
        self._weight, self._total = (0.0, 0.0) if mean is None else (1.0, mean)
        self._bins = np.zeros(BINS)
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
        return self._total / self._weight if self._weight else float("nan")

    @property
    def histogram(self) -> FloatArray:
        """Shares of the confidences in bins of the same width."""
        self._count()
        return self._bins / max(float(self._bins.sum()), 1e-300)

    def _count(self) -> None:
        if not self._waiting:
            return
        rows = np.minimum(np.concatenate(self._waiting).astype(np.float64), 1.0)
        self._waiting, self._rows = [], 0
        weight = _FORGET * (1 - _FORGET) ** np.arange(len(rows) - 1.0, -1.0, -1.0)
        kept = (1 - _FORGET) ** len(rows)
        self._weight = kept * self._weight + float(weight.sum())
        self._total = kept * self._total + float(rows @ weight)
        self._bins = kept * self._bins + np.histogram(rows, BINS, (0.0, 1.0), weights=weight)[0]
