"""Folds that depend on the rows and not on their order."""

from collections.abc import Iterator

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray, Labels, Logits
from wildcal.core.block import Block
from wildcal.core.blocks import joined, map_blocks

N_FOLDS = 5
COMMON_ROWS, COMMON_PART = 10, 0.05
"""So many rows that say the same, and such a part of all right or all wrong ones, are no copies of
a row: the model has few answers, as a decision tree and a few nearest neighbors have."""


def folds(
    logits: Logits,
    y: Labels,
    repeats: int,
    environment: Labels | None = None,
    weight: FloatArray | None = None,
) -> Iterator[FloatArray]:
    """Yield what part of each row is held out: 1 in all in each of the repeats.

    Rows are numbered by what they say: right before wrong, then by margin. Neighbors go to
    different folds, so each fold has its share of mistakes and of doubtful rows. Rows that are the
    same go together, so a row that stands there twice is a row of weight 2; but a fold that took
    all rows of a common answer would leave none to learn it from, so a part of each of them is in
    every fold. Neither the order of the rows nor that of the classes matters. Shifted environments
    (numbers from 1 on) are held out whole: a calibrator is to serve conditions that it was not
    fitted on.
    """

    def look(block: Block) -> tuple[FloatArray, ...]:
        own = block.original[np.arange(block.n), y[block.rows]].astype(np.float64)
        top = block.top.astype(np.float64)
        span = top - block.original.min(axis=1)
        return block.pred() != y[block.rows], block.margin(), top - own, span, block.energy()

    # Without the energy, whose last bit depends on the order of the classes; rounded it serves.
    wrong, margin, gap, span, energy = map_blocks(logits, look, joined)
    keys = np.column_stack([wrong, margin, gap, span, np.round(energy, 6)])
    _, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.reshape(-1)
    common = _common(place, wrong > 0, np.ones(len(y)) if weight is None else weight)
    if environment is not None and environment.any():
        place = _whole(place, environment, margin)
        common &= environment == 0
    n = int(place.max()) + 1
    for repeat in range(repeats):
        rng = np.random.default_rng(repeat)
        # Of every five neighbors, one for each fold.
        blocks = [rng.permutation(N_FOLDS) for _ in range(-(-n // N_FOLDS))]
        fold = np.concatenate(blocks)[:n][place]
        for number in range(N_FOLDS):
            yield np.where(common, 1 / N_FOLDS, fold == number)


def _common(place: Labels, wrong: BoolArray, weight: FloatArray) -> BoolArray:
    """Return which rows give a common answer."""
    rows = np.bincount(place, weight)[place]
    alike = np.where(wrong, weight[wrong].sum(), weight[~wrong].sum())
    return np.asarray((rows >= COMMON_ROWS) & (rows >= COMMON_PART * alike))


def _whole(place: Labels, environment: Labels, margin: FloatArray) -> Labels:
    """Return places at which all rows of a shifted environment stand together, after the others.

    The environments follow each other by margin, whatever their numbers.
    """
    clean = environment == 0
    first = np.unique(place[clean], return_inverse=True)[1]
    means = {e: float(np.mean(margin[environment == e])) for e in np.unique(environment[~clean])}
    out = np.empty_like(place)
    out[clean] = first
    for number, e in enumerate(sorted(means, key=means.__getitem__), start=int(first.max()) + 1):
        out[environment == e] = number
    return out
