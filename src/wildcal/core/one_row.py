"""One row at its temperature, as a service asks for it: the bits of a block, in a few calls.

A block of one row costs three times as much: it is all calls and no arithmetic.
"""

from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from wildcal.core.arrays import Logits, Proba, working_dtype
from wildcal.core.block import CLASSES_FIRST_BELOW
from wildcal.core.checks import reject_logit_row

Beta: TypeAlias = float | Callable[[np.float64], float]
"""An inverse temperature, or what makes one of the energy of a row."""


def softmax_row(z: Logits, beta: Beta) -> Proba:
    """Return softmax(beta * z) of a matrix of one row, bit for bit as `Block.softmax` does.

    >>> softmax_row(np.array([[2.0, 0.0]]), 0.5).round(3)
    array([[0.731, 0.269]])
    """
    e, total = _exponentials(z, beta)
    e *= e.dtype.type(1.0 / total)
    return e


def confidence_row(z: Logits, beta: Beta) -> Proba:
    """Return the largest softmax probability of one row, as `Block.confidence` does."""
    e, total = _exponentials(z, beta)
    return np.array([1.0 / total], e.dtype)


def _exponentials(z: Logits, beta: Beta) -> tuple[Proba, float]:
    """Return exp(beta * (z - max z)) and its sum, added in the order that a block adds in."""
    dtype = working_dtype(z.dtype)
    if z.dtype != dtype or not z.flags.c_contiguous:
        z = np.ascontiguousarray(z, dtype)
    top = z.take(z.argmax())  # NaN wins
    if not isfinite(top):
        reject_logit_row(0, z[0])
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.subtract(z, top)
        if callable(beta):
            beta = beta(-(np.float64(top) + np.log(_sum(np.exp(e)))))
        e *= dtype.type(beta)
        np.exp(e, out=e)
        return e, float(_sum(e))


def _sum(e: Proba) -> np.float64:
    if e.shape[1] < CLASSES_FIRST_BELOW:
        return np.float64(np.add.accumulate(e, 1)[0, -1])
    return np.float64(np.vecdot(e, _ones(e.shape[1], e.dtype))[0])


@lru_cache(maxsize=8)
def _ones(n: int, dtype: np.dtype[Any]) -> Proba:
    return np.ones(n, dtype)
