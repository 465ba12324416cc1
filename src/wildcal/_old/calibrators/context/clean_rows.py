"""What the clean rows of a fit are like, in a few walks over them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wildcal._old.calibrators.context.features import spread_or_one
from wildcal._old.core.arrays import FloatArray, Labels, Source
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, map_blocks, map_pieces, partly
from wildcal._old.core.columns import PIECE_ROWS, row_values

# Beyond every row.
_NOWHERE: Final = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class CleanRows:
    """The margin of clean rows, and how many of them are right."""

    mean: float
    """Of the margin."""
    std: float
    accuracy: float


def clean_span(environment: Labels, weight: FloatArray) -> tuple[int, int]:
    """Return where the clean rows with a weight begin and end; they mostly stand together.

    >>> clean_span(np.array([1, 0, 0, 0, 2]), np.array([1.0, 0.0, 1.0, 2.0, 1.0]))
    (2, 4)
    """

    def ends(piece: slice) -> tuple[int, int]:
        mine = np.flatnonzero((environment[piece] == 0) & (weight[piece] > 0)) + piece.start
        return (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (_NOWHERE, 0)

    first, last = map_pieces(weight, ends, PIECE_ROWS, _outermost)
    return first, last


@partly
def _outermost(parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    first, last = zip(*parts, strict=True)
    return min(first), max(last)


def clean_rows(logits: Source, y: Labels, weight: FloatArray) -> CleanRows:
    """Return what rows with a weight are like.

    Infinite margins, of rows where all classes but one are ruled out, are left out of the mean.
    """
    margin = row_values(logits, Block.margin)

    def glance(block: Block) -> tuple[float, FloatArray]:
        raw, w = margin(block), weight[block.rows]
        inside = np.isfinite(raw)
        right = block.pred() == y[block.rows]
        largest = float(raw.max(where=inside & (w > 0), initial=0.0))
        return largest, np.array([w.sum(), w @ right, w @ inside])

    largest, (total, right, inside) = map_blocks(logits, glance, _sized)
    size = max(1.0, largest)  # far from 1 the squares would overflow

    def moment(center: float, power: int) -> float:
        def sums(block: Block) -> float:
            raw, w = margin(block), weight[block.rows]
            # Rows without weight may be of any size: 0 times the square of theirs may be NaN.
            values = np.where(np.isfinite(raw) & (w > 0), raw / size - center, 0.0)
            return float(w @ values**power)

        return float(map_blocks(logits, sums, added)) / inside if inside else 0.0

    center = moment(0.0, 1)
    spread = float(np.sqrt(moment(center, 2)))
    mean, std = center * size, spread * size
    return CleanRows(mean, spread_or_one(mean, std), float(right / total))


@partly
def _sized(parts: Sequence[tuple[float, FloatArray]]) -> tuple[float, FloatArray]:
    largest, sums = zip(*parts, strict=True)
    return max(largest), added(sums)


def moments_of_two(
    logits: Source,
    weight: FloatArray,
    means: FloatArray,
    features: Callable[[Block], FloatArray],
) -> FloatArray:
    """Return the weighted sums of squares and products of two features around their means."""

    def sums(block: Block) -> FloatArray:
        apart = features(block) - means[:, None]
        return np.asarray((apart * weight[block.rows]) @ apart.T)

    return np.asarray(map_blocks(logits, sums, added))
