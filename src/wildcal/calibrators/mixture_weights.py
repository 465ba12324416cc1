"""The weights of a mixture of softmax(z / T), softmax(z) and 1 / K, by exact minimization."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Logits
from wildcal.core.block import Block
from wildcal.core.blocks import joined, map_blocks
from wildcal.core.objective import Point
from wildcal.core.optimize import minimize_in_box

# Of two mixtures whose losses agree this well we keep the simpler one.
_TIE = 1e-14
# A true class of probability zero would make the Hessian of the log loss overflow.
SMALLEST_PROBA = 1e-100


@dataclass(frozen=True, slots=True)
class Overlaps:
    """What the weights need to know of the data: inner products, and true-class probabilities."""

    gram: FloatArray
    """Mean of sum_k p^a_k p^b_k for the three components a, b; shape (3, 3)."""
    true_class: FloatArray
    """p^a_y of each row; shape (n_samples, 3)."""
    weight: FloatArray
    """Row weights that sum to one."""


def overlaps(
    logits: Logits, y: Labels, temperature: float, weight: FloatArray | None = None
) -> Overlaps:
    """Return the overlaps of softmax(z / T), softmax(z) and 1 / K in one pass over the logits."""
    n_rows = len(logits)
    w = np.full(n_rows, 1 / n_rows) if weight is None else weight / weight.sum()

    def look(block: Block) -> tuple[FloatArray, FloatArray]:
        beta = np.full(block.n, 1 / temperature)
        pp, pq, qq, p_y, q_y = block.overlap_terms(beta, y[block.rows])
        uniform = block.uniform()
        return np.column_stack([pp, pq, qq]), np.column_stack([p_y, q_y, uniform])

    products, true_class = map_blocks(logits, look, joined)
    pp, pq, qq = w @ products
    gram = np.full((3, 3), w @ true_class[:, 2])
    gram[:2, :2] = [[pp, pq], [pq, qq]]
    return Overlaps(gram, true_class, w)


def fit_weights_mse(data: Overlaps) -> tuple[FloatArray, float]:
    """Return the weights on the simplex that minimize the squared error, and that error.

    A quadratic program in three variables: its minimum is the best of the minima on the seven
    faces of the simplex, each of which is a linear equation.
    """
    gram, target = data.gram, data.weight @ data.true_class

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


def fit_weights_nll(data: Overlaps) -> tuple[FloatArray, float]:
    """Return the weights on the simplex that minimize the cross-entropy, and that cross-entropy.

    With the sum of the weights added to the loss, its minimum over w >= 0 has sum one by itself:
    along a ray the loss is -log s + s. That leaves a box.
    """
    q = np.maximum(data.true_class, SMALLEST_PROBA)

    def value(w: FloatArray) -> float:
        return float(-data.weight @ np.log(np.maximum(q @ w, SMALLEST_PROBA)))

    def objective(w: FloatArray) -> Point:
        ratio = q / np.maximum(q @ w, SMALLEST_PROBA)[:, None]
        weighted = ratio * data.weight[:, None]
        return Point(value(w) + w.sum() - 1, 1 - weighted.sum(axis=0), weighted.T @ ratio)

    def solve(start: list[float]) -> FloatArray:
        upper = np.where(np.array(start) > 0, 2.0, 0.0)
        w = minimize_in_box(objective, np.array(start), np.zeros(3), upper).x
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
