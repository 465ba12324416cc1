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
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import OOD_LABEL, FloatArray, Labels, Logits, Source
from wildcal.core.block import Block
from wildcal.core.blocks import joined, map_blocks, partly
from wildcal.core.columns import Changed, in_memory, loaded
from wildcal.core.rows import Rows

# A true class this far below the largest logit, and this many times as far as a row's second class
# usually is, was put there by a mask and not by a network.
_FAR: Final = 1000.0
_TIMES: Final = 100.0


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
    gap, margin = map_blocks(logits, lambda block: _look(block, y[block.rows]), joined)
    limit = max(_FAR, _TIMES * _typical(margin))
    labels = loaded(y)
    known = labels != OOD_LABEL
    holed = map_blocks(logits, lambda b: np.isneginf(b.original).any(axis=1), joined)
    bad = np.where(known, gap > limit, holed)
    if not bad.any():
        return rows, None, not wrong
    mended = Mended(logits, np.flatnonzero(bad), labels[bad], limit)
    n = int((bad & known).sum())
    note = None
    if n:
        first = int(np.flatnonzero(bad & known)[0])
        note = (
            f"{n} of {int(known.sum())} rows have a true class that their logits rule out (-inf or"
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


def _look(block: Block, y: Labels) -> tuple[FloatArray, FloatArray]:
    """Return how far the true class and the second class of each row are below its top."""
    own = block.original[np.arange(block.n), np.maximum(y, 0)]
    return block.top.astype(np.float64) - own, block.margin()


def _typical(margin: FloatArray) -> float:
    usual = margin[np.isfinite(margin) & (margin > 0)]
    return float(np.median(usual)) if len(usual) else 0.0


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
