"""Classwise calibration error: every class probability is held against its own label."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import BoolArray, FloatArray, Labels, Proba
from wildcal._old.core.checks import (
    MOST_BINS,
    PROBA_MAX,
    check_count,
    check_labels,
    check_same,
    proba_matrix,
    reject_proba_row,
)
from wildcal._old.core.one_thread import one_thread
from wildcal._old.metrics.accumulator import Accumulator
from wildcal._old.metrics.binning import bin_edges, bin_index
from wildcal._old.metrics.inputs import is_empty, matrix_blocks, take_columns, undefined
from wildcal._old.metrics.weighted import place_sums

# Entries that wait for their bins together: many more than a table of 1000 classes has places.
_ENOUGH = 1 << 17


class ClasswiseAccumulator(Accumulator):
    """Classwise calibration error of rows that arrive piece by piece, in constant memory.

    Examples
    --------
    >>> seen = ClasswiseAccumulator(n_classes=2)
    >>> seen.update([0], [[0.75, 0.25]]).update([1], [[0.75, 0.25]]).sce()
    0.25
    """

    _settings = ("n_classes", "n_bins")
    _sums = ("count", "proba_sum", "label_sum")

    def __init__(self, n_classes: int, n_bins: int = 15) -> None:
        self.n_classes = check_count("n_classes", n_classes, least=2)
        self.n_bins = check_count("n_bins", n_bins, most=MOST_BINS)
        self.count: NDArray[np.int64] = np.zeros((), dtype=np.int64)
        self.proba_sum: FloatArray = np.zeros((self.n_classes, self.n_bins))
        self.label_sum: NDArray[np.int64] = np.zeros(self.proba_sum.shape, dtype=np.int64)

    def update(self, y: ArrayLike, proba: ArrayLike) -> Self:
        """Take in labels (n,) and probabilities (n, K), skip rows with y = -1, and return self."""
        if is_empty(y, proba):
            return self
        array = proba_matrix(proba)
        labels = check_labels(y, *array.shape, accepts_ood=True)
        check_same("ClasswiseAccumulator", f"{self.n_classes} classes", f"{array.shape[1]} classes")
        new = self._fresh()
        own = np.empty(len(array))
        waiting: list[tuple[NDArray[np.intp], Proba]] = []
        n_waiting = 0
        for piece, block in matrix_blocks(array):
            # NaN makes the comparisons false: min and max hand it on.
            if not (block.min() >= 0 and block.max() <= PROBA_MAX):
                reject_proba_row(piece.start, block)
            own[piece] = take_columns(block, np.maximum(labels[piece], 0))
            waiting.append(new._add_low(block, labels[piece] >= 0))
            n_waiting += len(waiting[-1][1])
            if n_waiting > _ENOUGH or piece.stop >= len(array):
                new._move_high(waiting)
                waiting, n_waiting = [], 0
        inside = labels >= 0
        place = labels[inside] * self.n_bins + bin_index(own[inside], self.n_bins)
        new.label_sum += np.bincount(place, minlength=new.label_sum.size).reshape(
            new.label_sum.shape
        )
        new.count += len(place)
        return self.merge(new)

    def _add_low(self, block: Proba, inside: BoolArray) -> tuple[NDArray[np.intp], Proba]:
        """Add every entry to bin 0 of its class, and return (class, value) of those above it.

        With many classes nearly all probabilities are in bin 0, so one sum over rows does most of
        the work and only the others are looked up.
        """
        if not inside.all():
            block = block[inside]
        self.proba_sum[:, 0] += block.sum(axis=0, dtype=np.float64)
        flat = block.ravel()
        above = np.flatnonzero(flat > _at_most(bin_edges(self.n_bins)[1], flat.dtype))
        return above % self.n_classes, flat[above]

    def _move_high(self, waiting: list[tuple[NDArray[np.intp], Proba]]) -> None:
        """Move the entries that `_add_low` returned from bin 0 to their own bins."""
        column = np.concatenate([part for part, _ in waiting])
        value = np.concatenate([part for _, part in waiting]).astype(np.float64)
        place = column * self.n_bins + bin_index(value, self.n_bins)
        moved = np.bincount(place, np.minimum(value, 1.0), self.proba_sum.size)
        self.proba_sum += moved.reshape(self.proba_sum.shape)
        self.proba_sum[:, 0] -= np.bincount(column, value, self.n_classes)

    def sce(self) -> float:
        """Return the classwise calibration error, a mean over all K classes."""
        n = int(self.count)
        if n == 0:
            return undefined("sce", "there are no rows with y >= 0")
        return float(np.abs(self.proba_sum - self.label_sum).sum() / (n * self.n_classes))


def weighted_part(y: Labels, proba: Proba, n_bins: int, counts: FloatArray) -> tuple[Any, ...]:
    """Return the sums of one block of rows that count several times; `weighted_sce` adds them.

    They are the sum of each class in bin 0, dense; the other places of (class, bin) where a row has
    something, which are few, and the sums there: entries above bin 0 less the labels.
    """
    n_rows, n_classes = proba.shape
    flat = proba.astype(np.float64).ravel()
    above = np.flatnonzero(proba.ravel() > _at_most(bin_edges(n_bins)[1], proba.dtype))
    value = np.minimum(flat[above], 1.0)
    flat[above] = 0.0
    own = bin_index(take_columns(proba, y).astype(np.float64), n_bins)
    place = np.concatenate(
        [(above % n_classes) * n_bins + bin_index(value, n_bins), y * n_bins + own]
    )
    entry = np.concatenate([value, -np.ones(n_rows)])
    rows = np.concatenate([above // n_classes, np.arange(n_rows)])
    filled = np.zeros(n_classes * n_bins, np.bool_)
    filled[place] = True
    number = (np.cumsum(filled) - 1)[place]
    with one_thread():
        low = flat.reshape(proba.shape).T @ counts
    places = np.flatnonzero(filled)
    return low, places, place_sums(entry, number, rows, len(places), counts)


def weighted_sce(parts: Sequence[tuple[Any, ...]], n_bins: int, counts: FloatArray) -> FloatArray:
    """Return the classwise error from what `weighted_part` made of all blocks."""
    low = sum(part[0] for part in parts)
    places = np.unique(np.concatenate([part[1] for part in parts]))
    gaps = np.zeros((len(places), counts.shape[1]))
    for _, mine, sums in parts:
        gaps[np.searchsorted(places, mine)] += sums
    lowest = places % n_bins == 0
    low[places[lowest] // n_bins] += gaps[lowest]
    summed = np.abs(low).sum(axis=0) + np.abs(gaps[~lowest]).sum(axis=0)
    return np.asarray(summed / (counts.sum(axis=0) * len(low)))


def _at_most(edge: float, dtype: np.dtype[np.floating]) -> np.floating:
    """Return the largest number of a type not above `edge`, so that `>` means the same in it."""
    rounded = dtype.type(edge)
    return rounded if rounded <= edge else np.nextafter(rounded, dtype.type(0))


def sce(y: ArrayLike, proba: ArrayLike, *, n_bins: int = 15) -> float:
    """Return the static (classwise) calibration error, a fraction in [0, 1].

    SCE = (1/K) Σ_k Σ_b (n_kb / n) · |mean p_k in b - share of label k in b|: for each class k the
    binned error of column k against y = k, over all rows, averaged over all K columns whether or
    not a class occurs in y. Bins are those of `ece`. Rows are used as they are, without
    normalizing. Because of the 1/K it falls with the number of classes: compare it only at equal K.

    Parameters
    ----------
    y, proba
        Integer labels (n,) in [-1, K-1] and probabilities (n, K). Rows with y = -1 are left out,
        since they have no class.
    n_bins
        Number of equal-width bins (lo, hi].

    Returns
    -------
    float
        NaN, with a warning, if there are no rows with y >= 0.

    References
    ----------
    Nixon et al. (2019), "Measuring calibration in deep learning".

    Examples
    --------
    >>> sce([0, 1], np.array([[0.75, 0.25], [0.75, 0.25]]))
    0.25
    """
    if is_empty(y, proba):
        return undefined("sce")
    return ClasswiseAccumulator(proba_matrix(proba).shape[1], n_bins).update(y, proba).sce()
