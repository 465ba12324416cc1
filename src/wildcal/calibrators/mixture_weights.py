"""The weights of a mixture of softmax(z / T), softmax(z) and 1 / K, by exact minimization."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Source
from wildcal.core.block import Block
from wildcal.core.blocks import added, joined, map_blocks
from wildcal.core.columns import RowValues, row_values, total
from wildcal.core.objective import Point
from wildcal.core.optimize import minimize_in_box

# Of two mixtures whose losses agree this well we keep the simpler one.
_TIE = 1e-14
_LEAST_WEIGHT = 1e-12
_STEPS = 200
# A true class of probability zero would make the Hessian of the log loss overflow.
SMALLEST_PROBA = 1e-100


RowSums: TypeAlias = Callable[[FloatArray, FloatArray], Any]
"""Sums over some rows, from their true-class probabilities and weights."""


@dataclass(frozen=True, slots=True)
class Overlaps:
    """What the weights need to know of the data: inner products, and true-class probabilities."""

    gram: FloatArray
    """Mean of sum_k p^a_k p^b_k for the three components a, b; shape (3, 3)."""
    target: FloatArray
    """Mean of p^a_y; shape (3,)."""
    true_class: Callable[[RowSums], Any]
    """Sums a function of p^a_y, shape (n, 3), and of row weights that sum to one, over all rows."""


def overlaps(
    logits: Source, y: Labels, temperature: float, weight: FloatArray | None = None
) -> Overlaps:
    """Return the overlaps of softmax(z / T), softmax(z) and 1 / K in one pass over the logits."""
    whole = len(y) if weight is None else total(weight)

    def weights(block: Block) -> FloatArray:
        w = np.ones(block.n) if weight is None else weight[block.rows]
        return np.asarray(w / whole)

    def sums(block: Block) -> tuple[FloatArray, FloatArray]:
        w = weights(block)
        products, true_class = _terms(block, y[block.rows], temperature)
        return w @ products, w @ true_class

    kept: list[RowValues] = []  # made when it is first asked for: the squared error never does

    def over_rows(function: RowSums) -> Any:
        if not kept:
            kept.append(row_values(logits, lambda b, own: _terms(b, own, temperature)[1], y))
        true_class = kept[0]
        return map_blocks(logits, lambda b: function(true_class(b), weights(b)), added)

    (pp, pq, qq), target = map_blocks(logits, sums, added)
    gram = np.full((3, 3), target[2])
    gram[:2, :2] = [[pp, pq], [pq, qq]]
    return Overlaps(gram, target, over_rows)


def _terms(block: Block, y: Labels, temperature: float) -> tuple[FloatArray, FloatArray]:
    """Return p·p, p·q and q·q, and the probabilities of the true class, of each row of a block."""
    pp, pq, qq, p_y, q_y = block.overlap_terms(np.full(block.n, 1 / temperature), y)
    uniform = block.uniform()
    return np.column_stack([pp, pq, qq]), np.column_stack([p_y, q_y, uniform])


def true_class_rows(logits: Source, y: Labels, temperature: float) -> FloatArray:
    """Return the probabilities that the three components give the true class of each row."""
    found = map_blocks(logits, lambda b: _terms(b, y[b.rows], temperature)[1], joined)
    return np.asarray(found)


def fit_weights_mse(data: Overlaps) -> tuple[FloatArray, float]:
    """Return the weights on the simplex that minimize the squared error, and that error.

    A quadratic program in three variables: its minimum is the best of the minima on the seven
    faces of the simplex, each of which is a linear equation.
    """
    gram, target = data.gram, data.target

    def value(w: FloatArray) -> float:
        return float(w @ gram @ w - 2 * target @ w + 1)

    # Faces without the raw softmax come first: a tie leaves its weight at zero.
    faces = [(0,), (2,), (0, 2), (1,), (0, 1), (1, 2), (0, 1, 2)]
    return _simplest([w for face in faces if (w := _face(gram, target, face)) is not None], value)


def _face(gram: FloatArray, target: FloatArray, face: tuple[int, ...]) -> FloatArray | None:
    """Return the stationary point with weights on `face` alone, None if one is negative."""
    n = len(face)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram[np.ix_(face, face)]
    system[n, :n] = system[:n, n] = 1  # the multiplier of sum(w) = 1
    try:
        solution = np.linalg.solve(system, np.append(target[list(face)], 1.0))[:n]
    except np.linalg.LinAlgError:  # two equal components: a smaller face holds the minimum
        return None
    if not np.isfinite(solution).all() or solution.min() < 0:
        return None
    w = np.zeros(3)
    w[list(face)] = solution / solution.sum()
    return w


def mixed_nll(data: Overlaps, w: FloatArray) -> float:
    """Return the cross-entropy of the mixture with weights w."""

    def sums(p: FloatArray, weight: FloatArray) -> float:
        q = np.maximum(p, SMALLEST_PROBA)
        return float(-weight @ np.log(np.maximum(q @ w, SMALLEST_PROBA)))

    return float(data.true_class(sums))


def fit_weights_nll(data: Overlaps) -> tuple[FloatArray, float]:
    """Return the weights on the simplex that minimize the cross-entropy, and that cross-entropy.

    With the sum of the weights added to the loss, its minimum over w >= 0 has sum one by itself:
    along a ray the loss is -log s + s. That leaves a box.
    """

    def value(w: FloatArray) -> float:
        return mixed_nll(data, w)

    def objective(w: FloatArray) -> Point:
        def sums(p: FloatArray, weight: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            q = np.maximum(p, SMALLEST_PROBA)
            mixed = np.maximum(q @ w, SMALLEST_PROBA)
            ratio = q / mixed[:, None]
            weighted = ratio * weight[:, None]
            return float(-weight @ np.log(mixed)), weighted.sum(axis=0), weighted.T @ ratio

        loss, first, second = data.true_class(sums)
        return Point(loss + w.sum() - 1, 1 - first, second)

    def solve(start: list[float]) -> FloatArray:
        free = np.array(start) > 0
        # Not 0: from there a weight that a few rows need badly grows only by doubling.
        lower, upper = np.where(free, _LEAST_WEIGHT, 0.0), np.where(free, 2.0, 0.0)
        w = minimize_in_box(objective, np.array(start), lower, upper, max_iter=_STEPS).x
        w = np.where(w > 2 * _LEAST_WEIGHT, w, 0.0)
        return np.asarray(w / w.sum())

    return _simplest([np.eye(3)[0], solve([0.9, 0, 0.1]), solve([0.8, 0.1, 0.1])], value)


def _simplest(
    candidates: list[FloatArray], value: Callable[[FloatArray], float]
) -> tuple[FloatArray, float]:
    """Return the candidate of lowest value, the first one of those that tie."""
    best, lowest = candidates[0], value(candidates[0])
    for candidate in candidates[1:]:
        if (loss := value(candidate)) < lowest - _TIE * max(1.0, abs(lowest)):
            best, lowest = candidate, loss
    return best, lowest
