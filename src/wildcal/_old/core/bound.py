"""A fitted method bound to some rows: all it can say of them, block by block.

Whatever looks beyond the row, such as its window or its distances to training rows, was looked at
when the method was bound. What is left depends on a block alone, so one pass gives every column,
and several methods can be asked about a block while it is in the cache.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import FloatArray, Labels, Proba, Source, working_dtype
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import joined, map_blocks
from wildcal._old.core.columns import Changed
from wildcal._old.core.engine import engine_of
from wildcal._old.core.softmax import Fill, RowFunction, by_row, fill_proba


@dataclass(frozen=True, slots=True)
class Bound:
    """What a fitted method says of some rows."""

    logits: Source
    """The logits it sees: those of the rows, or what it made of them."""
    fill: Fill
    """Writes the probabilities of a block."""
    confidence: RowFunction
    """The probability of the predicted class."""
    temperature: RowFunction | None = None
    """What the raw logits are divided by in all; None where there is no such number."""
    top: Callable[[Block], tuple[FloatArray, Labels]] | None = None
    """Confidence and predicted class, where that is not the class of the largest logit."""

    def proba(self) -> Proba:
        """Return the probabilities of all rows, in the precision of the logits."""
        return fill_proba(self.logits, self.fill)

    def columns(self, raw: Source, *, proba: bool = True) -> dict[str, NDArray[Any]]:
        """Return all there is to say in one pass: probabilities, confidence, temperature, class."""
        dtype = working_dtype(self.logits.dtype)
        # What another process writes into a matrix stays there, and has to be sent.
        here = engine_of(self.logits) is None
        matrix = np.empty(self.logits.shape if proba and here else (0, 0), dtype)

        def look(block: Block) -> tuple[NDArray[Any], ...]:
            confidence, pred = (
                (self.confidence(block), None) if self.top is None else self.top(block)
            )
            found: list[NDArray[Any]] = [np.asarray(confidence, dtype)]
            if self.temperature is not None:
                found.append(np.asarray(self.temperature(block), dtype))
            if proba:
                out = matrix[block.rows] if here else np.empty(block.original.shape, dtype)
                self.fill(block, out)
                found += [] if here else [out]
            if pred is None:  # the logits that the method sees may tie
                same = raw is self.logits
                pred = block.pred() if same else np.argmax(raw[block.rows], axis=1)
            return (*found, pred)

        names = ["confidence"] + ["temperature"] * (self.temperature is not None)
        names += ["proba"] * (proba and not here)
        columns = map_blocks(self.logits, look, joined)
        found = dict(zip((*names, "pred"), columns, strict=True))
        if not here:
            return found
        return {"proba": matrix, **found} if proba else found

    def confidences(self) -> Proba:
        """Return the probability of the predicted class of all rows; no matrix is built."""
        return by_row(self.logits, self.confidence)


def bound_temperature(logits: Source, temperature: RowFunction) -> Bound:
    """Return what softmax(z / T) says of rows, T a function of the block."""

    def fill(block: Block, out: Proba) -> None:
        block.softmax(1.0 / temperature(block), out)

    return Bound(logits, fill, lambda b: b.confidence(1.0 / temperature(b)), temperature)


def bound_constant(logits: Source, temperature: float) -> Bound:
    """Return what softmax(z / T) says of rows, T the same for all of them."""
    beta = np.array([1.0 / temperature])
    return Bound(
        logits,
        lambda block, out: block.softmax(beta, out),
        lambda block: block.confidence(beta),
        lambda block: np.full(block.n, temperature),
    )


def bound_matrix(logits: Source, fill: Fill) -> Bound:
    """Return what a map says whose confidence is read off its matrix of probabilities."""

    def confidence(block: Block) -> FloatArray:
        out = np.empty(block.original.shape, working_dtype(logits.dtype))
        fill(block, out)
        top = np.take_along_axis(out, block.pred()[:, None], axis=1)[:, 0]
        return np.asarray(top, np.float64)

    return Bound(logits, fill, confidence)


@dataclass(frozen=True, slots=True)
class Scaled(Changed):
    """Rows of logits, each divided by a number of its own when they are read."""

    scale: FloatArray

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision that the division is done in."""
        return working_dtype(self.logits.dtype)

    def __getitem__(self, rows: slice) -> Proba:
        """Return z / S of some rows; a finite logit stays finite."""
        z = self.logits[rows]
        scale = self.scale[rows, None].astype(self.dtype)
        with np.errstate(over="ignore"):
            scaled = np.divide(z, scale, dtype=self.dtype)
        if not np.isfinite(scaled).all():  # logits near the largest float, or a class ruled out
            largest = np.finfo(self.dtype).max
            np.clip(scaled, -largest, largest, out=scaled, where=np.isfinite(z))
        return np.asarray(scaled)
