"""One row, as a service asks for it: the bits of a block, in a few calls.

A block of one row costs three times as much: it is all calls and no arithmetic. For the same reason
numbers are plain floats here; NumPy converts one to the precision of the array it meets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, Protocol, TypeAlias

import numpy as np

from wildcal.core.arrays import FloatArray, Logits, Proba, working_dtype
from wildcal.core.block import CLASSES_FIRST_BELOW, steady
from wildcal.core.checks import reject_logit_row

Beta: TypeAlias = float | Callable[[float], float]
"""An inverse temperature, or what makes one of the energy of a row."""


class RowMap(Protocol):
    """What a method says of a matrix of one row."""

    def proba(self, z: Logits) -> Proba:
        """Return the probabilities."""
        ...

    def top(self, z: Logits) -> tuple[Proba, int]:
        """Return that of the predicted class, as an array, and the class."""
        ...


@dataclass(slots=True)
class Tempered:
    """One row at its temperature.

    >>> Tempered(0.5).proba(np.array([[2.0, 0.0]])).round(3)
    array([[0.731, 0.269]])
    """

    beta: Beta

    def proba(self, z: Logits) -> Proba:
        """Return softmax(beta * z) bit for bit as `Block.softmax` does."""
        e, total, _ = _exponentials(z, self.beta)
        e *= 1.0 / total
        return e

    def top(self, z: Logits) -> tuple[Proba, int]:
        """Return the largest softmax probability as `Block.confidence` does, and its class."""
        e, total, at = _exponentials(z, self.beta)
        return np.array([1.0 / total], e.dtype), at


def _exponentials(z: Logits, beta: Beta) -> tuple[Proba, float, int]:
    """Return exp(beta * (z - max z)), its sum in the order that a block adds in, and the class.

    Between the requests of a service, each call of NumPy costs several times what it costs in a
    loop, so there are as few as can be: a Python float takes the precision of its array.
    """
    z, at = _largest(z)
    top = z.item(at)
    with np.errstate(over="ignore", invalid="ignore"):
        e = z - top
        if callable(beta):
            beta = beta(-(top + float(np.log(row_sum(np.exp(e))))))
        e *= beta
        np.exp(e, out=e)
        return e, row_sum(e), at


def steady_row(z: Logits, beta: float) -> tuple[Proba, int]:
    """Return softmax(beta * z) as `Block.steady_softmax` does, and the predicted class."""
    z, at = _largest(z)
    with np.errstate(over="ignore", invalid="ignore"):
        e = z.astype(np.float64)
        e -= z.item(at)
        if beta != 1:
            e *= beta
        np.exp(e, out=e)
        e *= 1.0 / row_sum(e)
    return steady(e) if z.dtype == np.float64 else e.astype(np.float32), at


def _largest(z: Logits) -> tuple[Logits, int]:
    """Return the row in the precision it is worked in, and where its largest entry is."""
    dtype = working_dtype(z.dtype)
    if z.dtype != dtype or not z.flags.c_contiguous:
        z = np.ascontiguousarray(z, dtype)
    at = int(z.argmax())  # NaN wins
    if not isfinite(z.item(at)):
        reject_logit_row(0, z[0])
    return z, at


def row_sum(e: Proba | FloatArray) -> float:
    """Return the sum of a matrix of one row, as `Block.sum` does."""
    return float(_added(e).item(-1))


def row_sums(e: Proba | FloatArray) -> Proba:
    """Return the sum of each of a few rows, the same bits."""
    return np.asarray(_added(e)[:, -1])


def _added(e: Proba | FloatArray) -> Proba:
    """Return a matrix whose last column has the sums of the rows."""
    if e.shape[1] < CLASSES_FIRST_BELOW:
        return np.asarray(np.add.accumulate(e, 1))
    return np.asarray(np.vecdot(e, _ones(e.shape[1], e.dtype))[:, None])


@lru_cache(maxsize=8)
def _ones(n: int, dtype: np.dtype[Any]) -> Proba:
    return np.ones(n, dtype)
