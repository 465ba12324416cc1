"""Proper scores of the whole probability row: negative log-likelihood and Brier score."""

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import FloatArray, Labels, Proba
from wildcal._old.core.block import row_dots
from wildcal._old.core.checks import are_proba, check_labels, proba_matrix, reject_proba_row
from wildcal._old.metrics.accumulator import Accumulator
from wildcal._old.metrics.inputs import is_empty, matrix_blocks, take_columns, undefined

# The smallest probability of the truth that is told from 0; the value of the published code.
SMALLEST = 1e-34
# Entries looked at together: with a thousand classes, smaller pieces would be all calls.
_PIECE = 1 << 18


def _pieces(y: ArrayLike, proba: ArrayLike) -> Iterator[tuple[Proba, FloatArray]]:
    """Yield checked rows with y >= 0, piece by piece, and their probabilities of the truth."""
    if is_empty(y, proba):
        return
    array = proba_matrix(proba)
    labels = check_labels(y, *array.shape, accepts_ood=True)
    for piece, block in matrix_blocks(array, _PIECE):
        if not are_proba(block):
            reject_proba_row(piece.start, block)
        own = labels[piece]
        if own.min() < 0:
            block, own = block[own >= 0], own[own >= 0]
        yield block, take_columns(block, own).astype(np.float64)


def _nll(own: FloatArray) -> FloatArray:
    return np.asarray(-np.log(np.clip(own, SMALLEST, 1)))


def _brier(block: Proba, own: FloatArray) -> FloatArray:
    """Return Σ_k (p_k - t_k)² with t one-hot; rounding may leave a perfect row a hair below 0."""
    squares = row_dots(block, block).astype(np.float64)
    return np.asarray(np.maximum(squares - 2 * own + 1, 0))


def nll_rows(y: Labels, proba: Proba, pred: Labels) -> FloatArray:
    """Return -log p[y] of each row of a block of probabilities; all rows must have a class."""
    return _nll(take_columns(proba, y).astype(np.float64))


def brier_rows(y: Labels, proba: Proba, pred: Labels) -> FloatArray:
    """Return Σ_k (p_k - [y = k])² of each row of a block; all rows must have a class."""
    return _brier(proba, take_columns(proba, y).astype(np.float64))


class ProperAccumulator(Accumulator):
    """Negative log-likelihood and Brier score of rows that arrive piece by piece.

    Examples
    --------
    >>> seen = ProperAccumulator().update([0], [[1.0, 0.0]]).update([1], [[1.0, 0.0]])
    >>> seen.brier()
    1.0
    """

    _sums = ("count", "nll_sum", "brier_sum")

    def __init__(self) -> None:
        self.count: NDArray[np.int64] = np.zeros((), dtype=np.int64)
        self.nll_sum: FloatArray = np.zeros(())
        self.brier_sum: FloatArray = np.zeros(())

    def update(self, y: ArrayLike, proba: ArrayLike) -> Self:
        """Take in labels (n,) and probabilities (n, K), skip rows with y = -1, and return self."""
        new = self._fresh()
        for block, own in _pieces(y, proba):
            new.count += len(own)
            new.nll_sum += _nll(own).sum()
            new.brier_sum += _brier(block, own).sum()
        return self.merge(new)

    def nll(self) -> float:
        """Return the mean negative log-likelihood in nats."""
        return _mean("nll", self.nll_sum, self.count)

    def brier(self) -> float:
        """Return the mean over rows of the squared distance to the one-hot label."""
        return _mean("brier", self.brier_sum, self.count)


def _mean(name: str, total: FloatArray | float, count: NDArray[np.int64] | int) -> float:
    if count == 0:
        return undefined(name, "there are no rows with y >= 0")
    return float(total / count)


def nll(y: ArrayLike, proba: ArrayLike) -> float:
    """Return the mean negative log-likelihood in nats, also called log loss or cross-entropy.

    NLL = -(1/n) Σ_i log max(p_i[y_i], 1e-34), so a probability of 0 for the truth costs 78.3, which
    says more about the method than about the mean: isotonic and spline maps do this.

    Parameters
    ----------
    y, proba
        Integer labels (n,) in [-1, K-1] and probabilities (n, K). Rows with y = -1 are left out.

    Returns
    -------
    float
        NaN, with a warning, if there are no rows with y >= 0.

    Examples
    --------
    >>> round(nll([0, 1], np.array([[0.5, 0.5], [0.75, 0.25]])), 6)  # log(2 · 4) / 2
    1.039721
    """
    total, count = 0.0, 0
    for _, own in _pieces(y, proba):
        total, count = total + float(_nll(own).sum()), count + len(own)
    return _mean("nll", total, count)


def brier(y: ArrayLike, proba: ArrayLike) -> float:
    """Return the Brier score Σ_k (p_k - [y = k])², averaged over rows, in [0, 2].

    This is the multi-class score: twice the one often used for two classes, K times the mean over
    all entries. Parameters and special cases as in `nll`.

    References
    ----------
    Brier (1950), "Verification of forecasts expressed in terms of probability".

    Examples
    --------
    >>> brier([0, 1], np.array([[0.5, 0.5], [1.0, 0.0]]))  # (0.25 + 0.25 + 1 + 1) / 2
    1.25
    """
    total, count = 0.0, 0
    for block, own in _pieces(y, proba):
        total, count = total + float(_brier(block, own).sum()), count + len(own)
    return _mean("brier", total, count)


def nll_per_sample(y: ArrayLike, proba: ArrayLike) -> FloatArray:
    """Return -log p[y] of each row with y >= 0; their mean is `nll`.

    >>> nll_per_sample([0, -1], np.array([[1.0, 0.0], [0.5, 0.5]])) + 0
    array([0.])
    """
    return np.concatenate([np.empty(0), *(_nll(own) for _, own in _pieces(y, proba))])


def brier_per_sample(y: ArrayLike, proba: ArrayLike) -> FloatArray:
    """Return Σ_k (p_k - [y = k])² of each row with y >= 0; their mean is `brier`.

    >>> brier_per_sample([0, -1, 1], np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]))
    array([0.5, 2. ])
    """
    return np.concatenate([np.empty(0), *(_brier(*piece) for piece in _pieces(y, proba))])
