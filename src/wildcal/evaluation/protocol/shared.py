"""One pass over the rows of many splits, shared by all methods."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray, Labels, Logits, working_dtype
from wildcal.core.blocks import Block, for_each_block
from wildcal.core.softmax import RowFunction, by_row
from wildcal.evaluation.protocol.methods import FittedMethod
from wildcal.evaluation.protocol.windows import offsets
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

    A method that reads a context first looks at the rows of each window; the context then only adds
    a number to what it computes of the row. One that reads distances scales the logits first, and
    so takes a pass of its own.
    """
    for group in _groups(splits):
        logits = _joined([split.logits for split in group])
        lengths = [split.rows for split in group]
        scaled = [i for i, method in enumerate(methods) if method.reader is not method.calibrator]
        plain = [i for i in range(len(methods)) if i not in scaled]
        confidence = np.empty((len(methods), len(logits)))
        energy, correct, confidence[plain] = _one_pass(
            logits,
            np.concatenate([split.y for split in group]),
            [_row_function(methods[i], logits, lengths) for i in plain],
        )
        for i in scaled:
            confidence[i] = _on_its_own(methods[i], group)
        start = 0
        for split in group:
            rows = slice(start, start + split.rows)
            start = rows.stop
            yield SplitRows(split, energy[rows], correct[rows], confidence[:, rows])


def _on_its_own(method: FittedMethod, group: Sequence[SuiteSplit]) -> FloatArray:
    """Return the confidences of a method that sees other logits than the rest: scaled ones."""
    logits = _joined([method.logits_of(split) for split in group])
    function = _row_function(method, logits, [split.rows for split in group])
    return np.minimum(by_row(logits, function).astype(np.float64), 1.0)


def _one_pass(
    logits: Logits, y: Labels, functions: Sequence[RowFunction]
) -> tuple[FloatArray, BoolArray, FloatArray]:
    energy, correct = np.empty(len(y)), np.empty(len(y), np.bool_)
    # In the precision of `confidence`, so that a report and a deployed calibrator agree.
    confidence = np.empty((len(functions), len(y)), working_dtype(logits.dtype))

    def work(block: Block) -> None:
        energy[block.rows] = block.energy()
        correct[block.rows] = block.pred() == y[block.rows]
        for row, function in zip(confidence, functions, strict=True):
            row[block.rows] = function(block)

    for_each_block(logits, work)
    return energy, correct, np.minimum(confidence.astype(np.float64), 1.0)


def _row_function(method: FittedMethod, logits: Logits, lengths: Sequence[int]) -> RowFunction:
    calibrator = method.in_context
    if calibrator is None:
        return method.reader._row_confidence(logits)
    return calibrator._confidence_at(offsets(calibrator, logits, lengths, method.window))


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
