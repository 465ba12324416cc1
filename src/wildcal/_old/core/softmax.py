"""Whole-matrix functions on logits: softmax, its top confidence, free energy, predicted class."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from wildcal._old.core.arrays import FloatArray, Labels, Proba, Source, working_dtype
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import joined, map_blocks
from wildcal._old.core.engine import engine_of

RowFunction: TypeAlias = Callable[[Block], FloatArray]
"""A number for each row of a block, from nothing but the rows themselves."""
Fill: TypeAlias = Callable[[Block, Proba], None]
"""Writes the probabilities of a block into an array."""


def softmax_at(logits: Source, temperature: RowFunction) -> Proba:
    """Return softmax(z / T) row by row, in the precision of the logits."""
    return fill_proba(logits, lambda block, out: block.softmax(1.0 / temperature(block), out))


def fill_proba(logits: Source, fill: Fill) -> Proba:
    """Return an N x K matrix that `fill(block, out)` wrote block by block."""
    dtype = working_dtype(logits.dtype)
    if engine_of(logits) is not None:  # what another process wrote has to be sent

        def filled(block: Block) -> Proba:
            mine = np.empty(block.original.shape, dtype)
            fill(block, mine)
            return mine

        return np.asarray(map_blocks(logits, filled, joined))
    out = np.empty(logits.shape, dtype)
    map_blocks(logits, lambda block: fill(block, out if block.n == len(out) else out[block.rows]))
    return out


def confidence_at(logits: Source, temperature: RowFunction) -> Proba:
    """Return max_k softmax(z / T)_k for each row without building the probability matrix."""
    return by_row(logits, lambda block: block.confidence(1.0 / temperature(block)))


def by_row(logits: Source, function: RowFunction) -> Proba:
    """Return one number per row, in the precision of the logits."""
    dtype = working_dtype(logits.dtype)
    return np.asarray(map_blocks(logits, lambda b: np.asarray(function(b), dtype), joined))


def predicted_class(logits: Source) -> Labels:
    """Return the index of the largest logit of each row, the first one on ties."""
    return np.asarray(map_blocks(logits, Block.pred, joined))


def energy_and_pred(logits: Source) -> tuple[FloatArray, Labels]:
    """Return the free energy F = -logsumexp(z) in float64 and the predicted class of each row."""
    energy, pred = map_blocks(logits, lambda block: (block.energy(), block.pred()), joined)
    return energy, pred
