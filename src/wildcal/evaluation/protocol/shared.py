"""One pass over the rows of many splits, shared by all methods."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray, Labels, Logits, working_dtype
from wildcal.core.blocks import Block, for_each_block
from wildcal.evaluation.protocol.methods import FittedMethod
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
    """Yield the splits in order; energy, predicted class and exponentials are computed once."""
    for group in _groups(splits):
        logits = _joined([split.logits for split in group])
        energy, correct, confidence = _one_pass(
            logits, np.concatenate([split.y for split in group]), methods
        )
        start = 0
        for split in group:
            rows = slice(start, start + split.rows)
            start = rows.stop
            yield SplitRows(split, energy[rows], correct[rows], confidence[:, rows])


def _one_pass(
    logits: Logits, y: Labels, methods: Sequence[FittedMethod]
) -> tuple[FloatArray, BoolArray, FloatArray]:
    energy, correct = np.empty(len(y)), np.empty(len(y), np.bool_)
    # In the precision of `confidence`, so that a report and a deployed calibrator agree.
    confidence = np.empty((len(methods), len(y)), working_dtype(logits.dtype))
    functions = [method.calibrator._row_confidence(logits) for method in methods]

    def work(block: Block) -> None:
        energy[block.rows] = block.energy()
        correct[block.rows] = block.pred() == y[block.rows]
        for row, function in zip(confidence, functions, strict=True):
            row[block.rows] = function(block)

    for_each_block(logits, work)
    return energy, correct, np.minimum(confidence.astype(np.float64), 1.0)


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


def _joined(parts: list[Logits]) -> Logits:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
