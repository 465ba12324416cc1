"""From (y, proba) or (correct, confidence) to the two numbers per row that top-label metrics use.

The matrix is walked once, in pieces that fit the cache, and is never copied as a whole.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import BoolArray, FloatArray, Labels, Proba
from wildcal._old.core.checks import (
    PROBA_BITS,
    PROBA_MAX,
    are_proba,
    check_confidence,
    check_correct,
    check_labels,
    check_pred,
    check_top_label,
    proba_matrix,
    reject_proba_row,
)
from wildcal._old.core.errors import CalibrationWarning

# Rows handed on together. The pieces of the matrix are smaller, but a consumer that adds into a
# table (bins, a grid) wants many rows at once.
CHUNK_ROWS = 1 << 15
# Below this many classes, numpy's per-row cost (about 35 ns) outweighs a transposed copy.
_FEW_CLASSES = 28


def is_empty(*arrays: ArrayLike) -> bool:
    """Return whether there are no rows in any of the arrays."""
    return all(len(np.atleast_1d(np.asarray(array))) == 0 for array in arrays)


def undefined(name: str, why: str = "there are no rows") -> float:
    """Return NaN and warn: the metric has no value here."""
    # Two frames up is the caller of the metric in all but the streaming classes.
    warnings.warn(f"{name} is NaN: {why}.", CalibrationWarning, stacklevel=3)
    return float("nan")


def matrix_blocks(array: Proba, elements: int = 1 << 16) -> Iterator[tuple[slice, Proba]]:
    """Yield cache-sized pieces of the rows, C-contiguous and at least float32.

    They are equally long: a few rows that are left over would cost as many calls.
    """
    pieces = -(-array.size // elements)
    step = -(-len(array) // max(1, pieces))
    for start in range(0, len(array), max(1, step)):
        piece = slice(start, start + step)
        block = array[piece]
        if block.dtype == np.float16:
            block = block.astype(np.float32)
        yield piece, np.ascontiguousarray(block)


def row_totals(block: Proba) -> Proba:
    """Return the sum of each row, or 1 for a row of zeros, whose entries are to stay 0."""
    total = block.sum(axis=1)
    total[total == 0] = 1
    return np.asarray(total)


def top_label_chunks(
    y: ArrayLike, proba: ArrayLike, pred: ArrayLike | None = None, *, normalize: bool = False
) -> Iterator[tuple[BoolArray, FloatArray]]:
    """Yield (correct, confidence) for at most `CHUNK_ROWS` rows at a time; nothing if no rows.

    Parameters
    ----------
    y, proba
        Integer labels (n,) in [-1, K-1] and probabilities (n, K), or a boolean `correct` (n,) and
        confidences (n,).
    pred
        Predicted classes (n,); the argmax of each row of `proba`, first on ties, if left out.
    normalize
        Divide the confidence by the sum of its row.
    """
    if is_empty(y, proba):
        return
    if check_top_label(y, proba, pred):
        yield from _from_confidence(y, np.asarray(proba))
        return
    array = proba_matrix(proba)
    labels = check_labels(y, *array.shape, accepts_ood=True)
    chosen = None if pred is None else check_pred(pred, *array.shape)
    few = _Few() if chosen is None and array.shape[1] < _FEW_CLASSES else None
    for start in range(0, len(array), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        mine = None if chosen is None else chosen[rows]
        yield _from_matrix(array[rows], labels[rows], mine, start, normalize, few)


def top_label(
    y: ArrayLike, proba: ArrayLike, pred: ArrayLike | None = None
) -> tuple[BoolArray, FloatArray]:
    """Return (correct, confidence) of all rows, for metrics that must sort them."""
    chunks = list(top_label_chunks(y, proba, pred))
    if not chunks:
        return np.empty(0, dtype=np.bool_), np.empty(0)
    correct, confidence = zip(*chunks, strict=True)
    return np.concatenate(correct), np.concatenate(confidence)


def _from_confidence(
    correct: ArrayLike, confidence: NDArray[Any]
) -> Iterator[tuple[BoolArray, FloatArray]]:
    right = check_correct(correct, len(confidence))
    for start in range(0, len(confidence), CHUNK_ROWS):
        part = confidence[start : start + CHUNK_ROWS]
        if not (part.dtype.kind == "f" and part.min() >= 0 and part.max() <= PROBA_MAX):
            check_confidence(confidence)  # the whole, so that the message has the right row
        yield right[start : start + CHUNK_ROWS], np.minimum(part.astype(np.float64), 1.0)


def _from_matrix(
    array: Proba,
    labels: Labels,
    pred: Labels | None,
    start: int,
    normalize: bool,
    few: "_Few | None",
) -> tuple[BoolArray, FloatArray]:
    correct = np.empty(len(array), dtype=np.bool_)
    confidence = np.empty(len(array))
    for piece, block in matrix_blocks(array):
        mine = labels[piece]
        if few is None or not few.found(block, mine, confidence[piece], correct[piece]):
            chosen = block.argmax(axis=1) if pred is None else pred[piece]
            if not are_proba(block):
                reject_proba_row(start + piece.start, block)
            np.equal(chosen, mine, out=correct[piece])
            confidence[piece] = take_columns(block, chosen)
        if normalize:
            confidence[piece] /= row_totals(block)
    return correct, np.minimum(confidence, 1.0, out=confidence)


def take_columns(block: Proba, columns: Labels) -> Proba:
    """Return one entry of each row of a C-contiguous block."""
    n_rows, n_classes = block.shape
    return block.ravel().take(np.arange(0, n_rows * n_classes, n_classes) + columns)


class _Few:
    """Rows of few classes, turned so that loops run along them; blocks share its memory."""

    def __init__(self) -> None:
        self._columns: NDArray[Any] = np.empty(0)
        self._tied: BoolArray = np.empty(0, np.bool_)
        self._starts: NDArray[np.intp] = np.empty(0, np.intp)

    def found(
        self, block: Proba, labels: Labels, confidence: FloatArray, correct: BoolArray
    ) -> bool:
        """Write the largest entry of each row, and whether it is the label's.

        Returns False, with nothing written, if there are ties or entries that need a second look.
        """
        n_rows, n_classes = block.shape
        unsigned, largest = PROBA_BITS[block.dtype]
        if self._columns.size < block.size:  # the first block is the largest
            self._columns = np.empty(block.size, unsigned)
            self._tied = np.empty(block.size, np.bool_)
            self._starts = np.arange(0, block.size, n_classes)
        columns = self._columns[: block.size].reshape(n_classes, n_rows)
        entries = block.view(unsigned)
        np.copyto(columns, entries.T)
        top = columns.max(axis=0)
        # As unsigned integers, numbers that are no probabilities are the largest of all.
        if top.max() > largest:
            return False
        # With as many maxima as rows, none is tied, and the label's entry tells whether it won.
        tied = np.equal(columns, top, out=self._tied[: block.size].reshape(columns.shape))
        if np.count_nonzero(tied) != n_rows:
            return False
        own = entries.reshape(-1).take(self._starts[:n_rows] + labels, mode="clip")
        np.equal(own, top, out=correct)
        if labels.min() < 0:
            correct &= labels >= 0
        confidence[:] = top.view(block.dtype)
        return True
