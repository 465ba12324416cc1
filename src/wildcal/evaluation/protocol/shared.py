"""One pass over the rows of many splits, shared by all methods."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import BoolArray, FloatArray, Labels, Logits, working_dtype
from wildcal.core.block import Block
from wildcal.core.blocks import joined, map_blocks
from wildcal.core.bound import Bound
from wildcal.evaluation.protocol.fitted import FittedMethod
from wildcal.io.suite import SuiteSplit

# Splits are joined up to this many bytes of logits, so that small ones share the calls of NumPy.
_GROUP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class SplitRows:
    """What the top-label metrics need of one split, for every method."""

    split: SuiteSplit
    energy: FloatArray
    correct: BoolArray
    """Whether the class of the largest logit is the label; False for rows without a class."""
    confidence: FloatArray
    """Shape (methods, rows)."""


def walk(splits: Sequence[SuiteSplit], methods: Sequence[FittedMethod]) -> Iterator[SplitRows]:
    """Yield the splits in order; energy, predicted class and exponentials are computed once.

    All methods that see the logits as they are share one pass. One that reads distances sees them
    scaled, and so takes a pass of its own.
    """
    for group in _groups(splits):
        logits = joined([split.logits for split in group])
        bounds = [method.bind(group, logits) for method in methods]
        y = np.concatenate([split.y for split in group])
        plain = [bound for bound in bounds if bound.logits is logits]
        energy, correct, shared = _one_pass(logits, y, plain)
        found = iter(shared)
        confidence = np.stack(
            [
                next(found)
                if bound.logits is logits
                else np.minimum(bound.confidences().astype(np.float64), 1.0)
                for bound in bounds
            ]
            or [np.empty(len(y))]
        )
        start = 0
        for split in group:
            rows = slice(start, start + split.rows)
            start = rows.stop
            yield SplitRows(split, energy[rows], correct[rows], confidence[: len(bounds), rows])


def _one_pass(
    logits: Logits, y: Labels, bounds: Sequence[Bound]
) -> tuple[FloatArray, BoolArray, list[FloatArray]]:
    # In the precision of `confidence`, so that a report and a deployed calibrator agree.
    dtype = working_dtype(logits.dtype)

    def look(block: Block) -> tuple[NDArray[Any], ...]:
        sure = (np.asarray(bound.confidence(block), dtype) for bound in bounds)
        return block.energy(), block.pred() == y[block.rows], *sure

    energy, correct, *confidence = map_blocks(logits, look, joined)
    return energy, correct, [np.minimum(c.astype(np.float64), 1.0) for c in confidence]


def _groups(splits: Sequence[SuiteSplit]) -> Iterator[list[SuiteSplit]]:
    """Yield runs of consecutive splits of one dtype that are small enough together."""
    group: list[SuiteSplit] = []
    size = 0
    for split in splits:
        bytes_ = split.rows * split.n_classes * 4
        if group and (size + bytes_ > _GROUP_BYTES or split.dtype != group[0].dtype):
            yield group
            group, size = [], 0
        group.append(split)
        size += bytes_
    if group:
        yield group
