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

from wildcal._old.core.arrays import FloatArray, Logits, Proba, working_dtype
from wildcal._old.core.block import CLASSES_FIRST_BELOW, row_dots, steady
from wildcal._old.core.checks import reject_logit_row

# A row whose entries lie no further apart cannot overflow at any temperature, so NumPy needs no
# setting that keeps it quiet, which costs as much as two of its calls.
_TAME = 1e30

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
    z, at, top = _largest(z)
    if top - z.item(z.argmin()) < _TAME:
        return *_scaled(z, top, beta), at
    with np.errstate(over="ignore", invalid="ignore"):
        return *_scaled(z, top, beta), at


def _scaled(z: Logits, top: float, beta: Beta) -> tuple[Proba, float]:
    e = z - top
    if callable(beta):
        beta = beta(-(top + float(np.log(row_sum(np.exp(e))))))
    e *= beta
    np.exp(e, out=e)
    return e, row_sum(e)


def steady_row(z: Logits, beta: float) -> tuple[FloatArray, int]:
    """Return softmax(beta * z) as `Block.steady_softmax` does, and the predicted class."""
    z, at, top = _largest(z)
    e = z.astype(np.float64)
    if z.dtype == np.float64:
        with np.errstate(over="ignore", invalid="ignore"):
            return steady(_wide_softmax(e, top, beta)), at
    return steady(_wide_softmax(e, top, beta)), at  # a float32 is far from overflow


def _wide_softmax(e: FloatArray, top: float, beta: float) -> FloatArray:
    e -= top
    if beta != 1:
        e *= beta
    np.exp(e, out=e)
    e *= 1.0 / row_sum(e)
    return e


def _largest(z: Logits) -> tuple[Logits, int, float]:
    """Return the row in the precision it is worked in, and where its largest entry is; and that."""
    dtype = working_dtype(z.dtype)
    if z.dtype != dtype or not z.flags.c_contiguous:
        z = np.ascontiguousarray(z, dtype)
    at = int(z.argmax())  # NaN wins
    top = z.item(at)
    if not isfinite(top):
        reject_logit_row(0, z[0])
    return z, at, top


def row_sum(e: Proba | FloatArray) -> float:
    """Return the sum of a matrix of one row, as `Block.sum` does."""
    if e.size < CLASSES_FIRST_BELOW:
        return np.add.accumulate(e, 1).item(-1)  # type: ignore[no-any-return]
    return row_dots(e, _ones(e.size, e.dtype)).item()


def row_sums(e: Proba | FloatArray) -> Proba:
    """Return the sum of each of a few rows, the same bits."""
    if e.shape[1] < CLASSES_FIRST_BELOW:
        return np.asarray(np.add.accumulate(e, 1)[:, -1])
    return np.asarray(row_dots(e, _ones(e.shape[1], e.dtype)))


@lru_cache(maxsize=8)
def _ones(n: int, dtype: np.dtype[Any]) -> Proba:
    return np.ones(n, dtype)
