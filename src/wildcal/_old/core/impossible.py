"""Rows whose true class the logits rule out, and how much such a row may say in a fit.

A class may be ruled out with -inf, or with a filler such as -1e9. Where it turns out to be the true
one, the row's log loss is infinite, or as large as the filler, at every temperature: nothing a
calibrator does can cure it, and yet one such row in a thousand would decide the whole fit. In a fit
it therefore counts as what it is, a mistake: the class that was ruled out takes the place of the
least likely class that was not. In rows of other classes (label -1), which aim at the uniform
distribution, all classes that are ruled out do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import OOD_LABEL, FloatArray, Labels, Logits, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, joined, map_blocks, partly
from wildcal._old.core.columns import Changed, in_memory
from wildcal._old.core.rows import Rows

# A true class this far below the largest logit, and this many times as far as a row's second class
# usually is, was put there by a mask and not by a network.
_FAR: Final = 1000.0
_TIMES: Final = 100.0

# Five times so many are those of a float64: a table for each block, small beside its buffers.
_BITS: Final = 13


def tamed(rows: Rows) -> tuple[Rows, str | None, bool]:
    """Return rows in which no true class is ruled out, a note on how many there were, and a flag.

    The flag says whether every row that has a class is classified right.

    >>> logits = np.array([[2.0, 1.0, -np.inf], [0.0, 3.0, 1.0]])
    >>> rows, note, all_right = tamed(Rows(logits, np.array([2, 1])))
    >>> rows.logits[0]
    array([2., 1., 1.])
    >>> note[:48]
    '1 of 2 rows have a true class that their logits '
    """
    logits, y = rows.logits, rows.labels
    top, lowest, holes, wrong = map_blocks(logits, lambda b: _glance(b, y[b.rows]), _extremes)
    # Far below the largest logit of all: a quick look, which nearly all data pass.
    if not (holes or lowest < top - _FAR):
        return rows, None, not wrong
    limit = max(_FAR, _TIMES * _typical(logits))
    _, bad, labels, n_known = map_blocks(
        logits, lambda block: _ruled_out(block, y[block.rows], limit), _in_order
    )
    if not len(bad):
        return rows, None, not wrong
    mended = Mended(logits, bad, labels, limit)
    known = labels != OOD_LABEL
    n = int(known.sum())
    note = None
    if n:
        first = int(bad[known][0])
        note = (
            f"{n} of {n_known} rows have a true class that their logits rule out (-inf or"
            f" far below the rest; the first is row {first}), which no temperature can cure; there"
            " it counts as the least likely of the other classes."
        )
    made: Source = mended[:] if in_memory(logits) else mended
    return replace(rows, logits=made), note, not wrong


def _glance(block: Block, y: Labels) -> tuple[float, float, bool, bool]:
    """Return the largest logit, the lowest of a true class, and two flags.

    They say whether rows of no class have holes, and whether a row is classified wrongly.
    """
    known = y != OOD_LABEL
    own = block.original[np.arange(block.n), np.maximum(y, 0)]
    lowest = float(own.min(where=known, initial=np.inf))
    holes = not known.all() and bool(np.isneginf(block.original[~known]).any())
    # Usually some row says so by its logits; only ties have to be looked at more closely.
    wrong = bool((own < block.top)[known].any()) or bool((block.pred() != y)[known].any())
    return float(block.top.max()), lowest, holes, wrong


@partly
def _extremes(
    parts: Sequence[tuple[float, float, bool, bool]],
) -> tuple[float, float, bool, bool]:
    top, lowest, holes, wrong = zip(*parts, strict=True)
    return max(top), min(lowest), any(holes), any(wrong)


@dataclass(frozen=True, slots=True)
class Mended(Changed):
    """Rows of logits, a few of which are mended when they are read."""

    rows: NDArray[np.intp]
    """The numbers of those, increasing."""
    labels: Labels
    limit: float

    def __getitem__(self, rows: slice) -> Logits:
        """Return some rows, a copy."""
        found = np.array(self.logits[rows])
        start, stop, step = rows.indices(len(self))
        low, high = np.searchsorted(self.rows, [start, stop])
        for row, label in zip(self.rows[low:high], self.labels[low:high], strict=True):
            if (row - start) % step == 0:
                at = (row - start) // step
                found[at] = _mended(found[at], int(label), self.limit)
        return found


_Found: TypeAlias = tuple[int, NDArray[np.intp], Labels, int]


def _ruled_out(block: Block, y: Labels, limit: float) -> _Found:
    """Return how many rows there are, which of them are to be mended, their labels, and one count.

    It says how many rows have a class. Of the other rows nothing is kept: they may be many.
    """
    known = y != OOD_LABEL
    own = block.original[np.arange(block.n), np.maximum(y, 0)]
    far = block.top.astype(np.float64) - own > limit
    bad = np.flatnonzero(np.where(known, far, np.isneginf(block.original).any(axis=1)))
    return block.n, bad, y[bad], int(known.sum())


@partly
def _in_order(parts: Sequence[_Found]) -> _Found:
    sizes, bad, labels, known = zip(*parts, strict=True)
    starts = accumulate(sizes, initial=0)
    rows = [start + numbers for start, numbers in zip(starts, bad, strict=False)]
    return sum(sizes), np.concatenate(rows), np.concatenate(labels), sum(known)


def _typical(logits: Source) -> float:
    """Return the median of how far the second class is below the top, or 0 where it is small.

    Small is what the limit does not depend on.
    """
    n, small = map_blocks(logits, _count_small, added)
    if small > n / 2 or not n:
        return 0.0
    if in_memory(logits):
        return float(np.median(map_blocks(logits, _margins, joined)))
    return _median(logits, n)


def _margins(block: Block) -> FloatArray:
    margin = block.margin()
    return margin[np.isfinite(margin) & (margin > 0)]


def _count_small(block: Block) -> tuple[int, int]:
    margin = _margins(block)
    return len(margin), int((margin <= _FAR / _TIMES).sum())


def _median(logits: Source, n: int) -> float:
    """Return the median of n margins, none of which is kept, in five passes.

    Positive floats are in the order of their bits. Each pass counts the next of them, in those
    numbers that begin like the two in the middle.
    """
    ranks = np.array([(n - 1) // 2, n // 2])
    begin = np.zeros(2, np.uint64)
    for shift in range(4 * _BITS, -1, -_BITS):
        counts = map_blocks(logits, partial(_count_bits, begin=begin, shift=shift), added)
        below = np.cumsum(counts, axis=1)
        at = [int(np.searchsorted(below[i], ranks[i], side="right")) for i in (0, 1)]
        ranks -= below[(0, 1), at] - counts[(0, 1), at]
        begin = (begin << np.uint64(_BITS)) | np.array(at, np.uint64)
    return float(begin.view(np.float64).mean())


def _count_bits(block: Block, begin: NDArray[np.uint64], shift: int) -> NDArray[np.int64]:
    """Return how often each of the next bits follow either beginning, a row for each."""
    bits = _margins(block).view(np.uint64) >> np.uint64(shift)
    begins, follows = np.divmod(bits, np.uint64(1 << _BITS))
    counts = [
        np.bincount(follows[begins == b].astype(np.intp), minlength=1 << _BITS) for b in begin
    ]
    return np.stack(counts)


def _mended(row: Logits, label: int, limit: float) -> Logits:
    """Return a row in which the true class, or for label -1 every class, is possible."""
    possible = row >= row.max() - limit
    if label >= 0:
        possible[label] = False
    # A single class may be left: then the true one is taken to be as likely.
    lowest = row[possible].min() if possible.any() else row.max()
    mended = row.copy()
    if label >= 0:
        mended[label] = lowest
    else:
        mended[~possible] = lowest
    return mended
