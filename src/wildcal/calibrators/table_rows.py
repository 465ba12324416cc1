"""What isotonic curves say of a block of rows, and of one row alone: the same bits."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators.piecewise import Curves, Fitted, curves_of
from wildcal.core.arrays import FloatArray, Logits, Proba, working_dtype
from wildcal.core.block import Block
from wildcal.core.one_row import row_sum, steady_row

Normalize: TypeAlias = Literal["row", "none"]
NORMALIZE: tuple[Normalize, ...] = ("row", "none")

# The published tie-breaker: it keeps the order of classes that share a plateau of f.
TIE_BREAKER = 1e-9


def isotonic_values(
    block: Block, beta: float, curves: Curves, normalize: Normalize
) -> tuple[FloatArray, FloatArray | None]:
    """Return f(softmax(beta z)) of every entry, with the tie-breaker, and what to divide rows by.

    Entries lie as in the block, whose next call overwrites them.
    """
    p = block.steady_entries(beta)
    values = curves(p, block.spare(), classes_first=block.classes_first)
    total = block.sum(values) + TIE_BREAKER if normalize == "row" else None
    values += TIE_BREAKER * p
    return values, total


def isotonic_tops(
    block: Block, beta: float, curves: Curves, normalize: Normalize
) -> tuple[FloatArray, FloatArray | None]:
    """Return the same of the predicted class of each row alone: one entry gets the tie-breaker."""
    p = block.steady_entries(beta)
    values = curves(p, block.spare(), classes_first=block.classes_first)
    total = block.sum(values) + TIE_BREAKER if normalize == "row" else None
    pred = block.pred()
    return block.entry(values, pred) + TIE_BREAKER * block.entry(p, pred), total


def finished(block: Block, values: NDArray[Any], total: FloatArray | None) -> FloatArray:
    """Divide entries, or one of each row, by the totals; a row without any becomes uniform."""
    if total is not None:
        whole = values.ndim == 2
        values /= block.per_row(total) if whole else total
        empty = total <= TIE_BREAKER
        if empty.any():
            np.copyto(values, 1.0 / block.n_classes, where=block.per_row(empty) if whole else empty)
    return np.asarray(np.minimum(values, 1.0, out=values))


def raised(top: Proba) -> Proba:
    """Return probabilities one unit in the last place higher, at most 1."""
    return np.asarray(np.minimum(np.nextafter(top, top.dtype.type(2)), 1))


@dataclass(slots=True)
class TableRow:
    """One row at its temperature, mapped by curves."""

    method: Fitted
    beta: float
    normalize: Normalize
    keeps_class: bool
    """Whether the predicted class is raised above others that the curves made equal to it."""

    def proba(self, z: Logits) -> Proba:
        """Return the probabilities of a matrix of one row."""
        return self._proba(z)[0]

    def top(self, z: Logits) -> tuple[Proba, int]:
        """Return that of the predicted class, and the class."""
        proba, at = self._proba(z)
        return proba[:, at], at

    def _proba(self, z: Logits) -> tuple[Proba, int]:
        p, at = steady_row(z, self.beta)
        values = curves_of(self.method)(p)
        total = row_sum(values) + TIE_BREAKER
        values += TIE_BREAKER * p
        if self.normalize == "row":
            if total > TIE_BREAKER:
                values /= total
            else:
                values.fill(1.0 / values.shape[1])
        if not self.keeps_class:
            return np.minimum(values, 1.0, out=values).astype(working_dtype(z.dtype)), at
        proba = values.astype(working_dtype(z.dtype))
        # The bits of positive floats are ordered as they are: one more is the next float.
        bits = proba.view(np.int32 if proba.itemsize == 4 else np.int64)
        bits[0, at] = bits.item(proba.argmax()) + 1
        return np.minimum(proba, 1.0, out=proba), at
