"""Whole-matrix functions on logits: softmax, its top confidence, free energy, predicted class."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Logits, Proba, working_dtype
from wildcal.core.blocks import Block, for_each_block

RowFunction: TypeAlias = Callable[[Block], FloatArray]
"""A number for each row of a block, from nothing but the rows themselves."""


def softmax_at(logits: Logits, temperature: RowFunction) -> Proba:
    """Return softmax(z / T) row by row, in the precision of the logits."""
    return fill_proba(logits, lambda block, out: block.softmax(1.0 / temperature(block), out))


def fill_proba(logits: Logits, fill: Callable[[Block, Proba], None]) -> Proba:
    """Return an N x K matrix that `fill(block, out)` wrote block by block."""
    out = np.empty(logits.shape, working_dtype(logits.dtype))
    for_each_block(logits, lambda block: fill(block, out[block.rows]))
    return out


def confidence_at(logits: Logits, temperature: RowFunction) -> Proba:
    """Return max_k softmax(z / T)_k for each row without building the probability matrix."""
    return by_row(logits, lambda block: block.confidence(1.0 / temperature(block)))


def by_row(logits: Logits, function: RowFunction) -> Proba:
    """Return one number per row, in the precision of the logits."""
    out = np.empty(len(logits), working_dtype(logits.dtype))

    def work(block: Block) -> None:
        out[block.rows] = function(block)

    for_each_block(logits, work)
    return out


def predicted_class(logits: Logits) -> Labels:
    """Return the index of the largest logit of each row, the first one on ties."""
    out = np.empty(len(logits), np.int64)

    def work(block: Block) -> None:
        out[block.rows] = block.pred()

    for_each_block(logits, work)
    return out


def energy_and_pred(logits: Logits) -> tuple[FloatArray, Labels]:
    """Return the free energy F = -logsumexp(z) in float64 and the predicted class of each row."""
    energy, pred = np.empty(len(logits), np.float64), np.empty(len(logits), np.int64)

    def work(block: Block) -> None:
        energy[block.rows], pred[block.rows] = block.energy(), block.pred()

    for_each_block(logits, work)
    return energy, pred
