"""Isotonic regression of cells that come in increasing order, as many at a time as there are.

Pooling adjacent violators is a walk with a stack: what was pooled so far, and the next cell. Cells
are pooled by pieces, each alone and then with those blocks before it that it reaches down to. Where
pieces begin is a matter of counting cells alone, so a curve has the same bits whether its cells
came at once or in turns.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import BoolArray, FloatArray

Values: TypeAlias = NDArray[np.floating[Any]]
Thresholds: TypeAlias = tuple[FloatArray, FloatArray]
"""Increasing x and non-decreasing f(x); f is linear in between and constant outside."""
Cells: TypeAlias = FloatArray
"""A column for each: the first and the last x, the weight of ones, and that of all."""

# Of a piece: enough that calls do not count. Changing it may change the last bits of longer curves.
PIECE_CELLS: Final = 1 << 18
# Rounds of pooling before SciPy is asked.
_ROUNDS: Final = 64


class Pooling:
    """The non-decreasing function closest to the mean targets of cells.

    Examples
    --------
    >>> curve = Pooling()
    >>> curve.add(np.array([0.1, 0.2]), np.array([0.1, 0.2]), np.array([0.0, 1.0]), np.ones(2))
    >>> curve.add(np.array([0.3]), np.array([0.3]), np.array([0.0]), np.ones(1))
    >>> curve.thresholds()
    (array([0.1, 0.2, 0.3]), array([0. , 0.5, 0.5]))
    """

    def __init__(self) -> None:
        self._blocks: Cells = np.empty((4, 0))
        self._waiting: list[Cells] = []
        self._count = 0

    def add(self, first: Values, last: Values, positive: FloatArray, total: FloatArray) -> None:
        """Take cells [first, last] with mean target positive / total, right of all before."""
        done = 0
        while done < len(first):
            piece = slice(done, done + PIECE_CELLS - self._count)
            cells = np.array([c[piece] for c in (first, last, positive, total)], np.float64)
            self._waiting.append(cells)
            self._count += cells.shape[1]
            done += cells.shape[1]
            if self._count == PIECE_CELLS:
                self._pool()

    def thresholds(self) -> Thresholds:
        """Return the function; no thresholds where there was no cell."""
        self._pool()
        first, last, _, _ = self._blocks
        y = np.minimum(np.maximum.accumulate(_mean(self._blocks)), 1.0)  # both only mend rounding
        x = np.column_stack([first, last]).ravel()
        keep = np.append(True, x[1:] > x[:-1])[: len(x)]
        return x[keep], np.repeat(y, 2)[keep]

    def _pool(self) -> None:
        if not self._count:
            return
        new = _pooled(np.concatenate(self._waiting, axis=1))
        self._waiting, self._count = [], 0
        # Pooled with blocks of a larger mean the first new one rises, so it reaches no lower ones.
        reach = int(np.searchsorted(_mean(self._blocks), _mean(new)[0]))
        if reach < self._blocks.shape[1]:
            new = _pooled(np.concatenate([self._blocks[:, reach:], new], axis=1))
        self._blocks = np.concatenate([self._blocks[:, :reach], new], axis=1)


def _mean(cells: Cells) -> FloatArray:
    return np.asarray(cells[2] / cells[3])


def _pooled(cells: Cells) -> Cells:
    """Return the blocks of the isotonic regression of some cells, as cells."""
    start = _starts(cells[2], cells[3])
    end = np.append(start[1:], cells.shape[1]) - 1
    sums = [np.add.reduceat(row, start) for row in cells[2:]]
    return np.array([cells[0, start], cells[1, end], *sums])


def _starts(positive: FloatArray, total: FloatArray) -> NDArray[np.intp]:
    """Return where the blocks of the regression begin.

    Every run of means that do not rise is pooled, all runs at once, until all means rise. On real
    data that takes about ten rounds; what could take one for each cell is left to SciPy, which
    takes half a second to import.
    """
    start = np.arange(len(total))
    for _ in range(_ROUNDS):
        mean = positive / total
        rises = np.append(True, mean[1:] > mean[:-1])
        if rises.all():
            return start
        runs = np.flatnonzero(rises)
        start, positive, total = (
            start[runs], np.add.reduceat(positive, runs), np.add.reduceat(total, runs)
        )  # fmt: skip
    from scipy.optimize import isotonic_regression  # here: `import wildcal` stays quick

    value = isotonic_regression(positive / total, weights=total).x
    return np.asarray(start[np.append(True, value[1:] != value[:-1])])


def fit_isotonic(x: FloatArray, target: BoolArray, weight: FloatArray | None) -> Thresholds:
    """Return the non-decreasing f that minimizes sum of weight * (f(x) - target)².

    >>> fit_isotonic(np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, True, False, True]), None)
    (array([0.1, 0.2, 0.3, 0.4]), array([0. , 0.5, 0.5, 1. ]))
    """
    unique, index = np.unique(x, return_inverse=True)
    weight = np.ones(len(x)) if weight is None else weight
    positive = np.bincount(index, weight * target).astype(np.float64)
    total = np.bincount(index, weight).astype(np.float64)
    curve = Pooling()
    curve.add(unique, unique, positive, total)
    return curve.thresholds()


def check_thresholds(x: FloatArray, y: FloatArray) -> None:
    """Raise a ValueError unless x increases, y does not decrease, and both lie in [0, 1]."""
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise ValueError(f"thresholds must be two arrays of one length, got {x.shape}, {y.shape}.")
    if x.min() < 0 or x.max() > 1 or (np.diff(x) <= 0).any():
        raise ValueError("thresholds must increase within [0, 1].")
    if y.min() < 0 or y.max() > 1 or (np.diff(y) < 0).any():
        raise ValueError("values must lie in [0, 1] and not decrease.")
