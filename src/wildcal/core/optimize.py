"""Newton's method, and what it minimizes: losses of scaled logits, the logistic loss."""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import BLOCK_ENTRIES, FEW_CLASSES, FloatArray, IntArray

Loss: TypeAlias = Literal["nll", "mse"]
Link: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
"""Returns a function of its argument and the first two derivatives."""

# Larger ones are held in float32 with sums in float64: half of the time, and a mean loss that is
# exact to 2e-8.
_MAX_FLOAT64: Final = 1 << 18
# Relative changes of a mean loss below this are rounding.
_RESOLUTION: Final = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 1e-7}
_SUFFICIENT_DECREASE: Final = 1e-4
# A coordinate is at its bound if it is so near, relative to its size and to 1.
_AT_BOUND: Final = 1e-6
# Part of the variance of columns of a design that is taken for rounding.
_MIN_VARIANCE: Final = 1e-6
# Squares of larger differences of logits overflow.
_MIN_LOGIT: Final = -1e30


@dataclass(frozen=True)
class Solution:
    """Result of a minimization."""

    x: FloatArray
    value: float
    n_iter: int
    converged: bool


def exp_link(t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Temperature exp(t)."""
    h = np.exp(t)
    return h, h, h


def softplus_link(low: float, high: float) -> Link:
    """Temperature log(1 + exp(t)), clipped to [low, high]."""

    def link(t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        h = np.logaddexp(0.0, t)
        inside = (h > low) & (h < high)
        sigmoid = np.exp(t - h)
        return np.clip(h, low, high), sigmoid * inside, sigmoid * (1 - sigmoid) * inside

    return link


def linear_link(floor: float) -> Link:
    """Temperature max(t, floor)."""

    def link(t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return np.maximum(t, floor), (t >= floor).astype(np.float64), np.zeros_like(t)

    return link


@dataclass
class _Block:
    """Samples whose logits have a maximum of 0 in each sample."""

    part: slice
    u: FloatArray
    u_y: FloatArray
    known: FloatArray
    index: tuple[IntArray, IntArray]


@dataclass(eq=False)
class TemperatureObjective:
    """Mean loss of softmax(z / h) with h = link(offset + design @ phi), as a function of phi.

    OOD samples (y == -1) have the uniform distribution as target. Calling the objective returns the
    value, the gradient and the Hessian.
    """

    logits: FloatArray
    y: IntArray
    weight: FloatArray
    design: FloatArray
    link: Link
    _: KW_ONLY
    offset: float = 0.0
    loss: Loss = "mse"

    def __post_init__(self) -> None:
        self._blocks = list(_blocks(self.logits, self.y, self.loss))

    def __call__(self, phi: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss at phi, its gradient and Hessian."""
        m = len(phi)
        sums = np.zeros(1 + m + m * m)
        for block in self._blocks:
            design, weight = self.design[block.part], self.weight[block.part]
            h, h1, h2 = self.link(self.offset + design @ phi)
            value, slope, curvature = _derivatives(block, h, self.loss)
            first = weight * slope * h1
            second = weight * (curvature * h1 * h1 + slope * h2)
            hessian = (design.T * second) @ design
            sums += np.concatenate([[weight @ value], design.T @ first, hessian.ravel()])
        sums /= self.weight.sum()
        return float(sums[0]), sums[1 : 1 + m], sums[1 + m :].reshape(m, m)

    def minimize(
        self, start: FloatArray, lower: FloatArray, upper: FloatArray, **options: Any
    ) -> Solution:
        """Minimize in a box by `newton`, which gets the options."""
        resolution = _RESOLUTION[self._blocks[0].u.dtype]
        return newton(self, start, lower, upper, resolution=resolution, **options)


def temperature_losses(
    logits: FloatArray, y: IntArray, temperatures: FloatArray | float, loss: Loss
) -> FloatArray:
    """Return the loss of each sample of softmax(z / T), shape (n_samples,)."""
    h = np.broadcast_to(np.asarray(temperatures, dtype=np.float64), y.shape)
    blocks = _blocks(logits, y, loss)
    return np.concatenate([_values(block, h[block.part], loss) for block in blocks])


def _blocks(logits: FloatArray, y: IntArray, loss: Loss) -> Iterator[_Block]:
    n, k = logits.shape
    size = max(1, BLOCK_ENTRIES // k)
    order: Literal["F", "C"] = "F" if k < FEW_CLASSES else "C"
    dtype = np.float64 if logits.size <= _MAX_FLOAT64 else np.float32
    for start in range(0, n, size):
        part = slice(start, start + size)
        z = np.asarray(logits[part], dtype=np.float64, order=order)
        u = np.maximum(z - z.max(axis=1, keepdims=True), _MIN_LOGIT).astype(dtype, copy=False)
        known = y[part] >= 0
        index = np.arange(len(u)), np.maximum(y[part], 0)
        u_y = u[index]
        if loss == "nll" and not known.all():
            u_y = np.where(known, u_y, u.mean(axis=1))
        yield _Block(part, u, u_y, known.astype(np.float64), index)


def _values(block: _Block, h: FloatArray, loss: Loss) -> FloatArray:
    """Return each sample's loss at temperature h."""
    p = np.exp(block.u / h[:, None].astype(block.u.dtype))
    total = _sum(p)
    if loss == "nll":
        return np.asarray(np.log(total) - block.u_y / h)
    p_y = p[block.index] / total * block.known
    return np.asarray(_sum(p, p) / total**2 - 2 * p_y + block.known)


def _derivatives(
    block: _Block, h: FloatArray, loss: Loss
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each sample's loss at temperature h and its first two derivatives by h.

    With beta = 1 / h: dl/dh = -beta^2 l', d2l/dh2 = beta^4 l'' + 2 beta^3 l', where l' and l'' are
    the derivatives by beta.
    """
    u, beta = block.u, 1.0 / h
    p = np.exp(u * beta[:, None].astype(u.dtype))
    pu, total = p * u, _sum(p)
    mean, square = _sum(pu) / total, _sum(pu, u) / total
    variance = square - mean * mean
    if loss == "nll":
        value = np.log(total) - beta * block.u_y
        first, second = mean - block.u_y, variance
    else:
        p_y, d_y = p[block.index] / total * block.known, block.u_y - mean
        s2, a, a2 = (_sum(x, y) / total**2 for x, y in ((p, p), (p, pu), (pu, pu)))
        a1 = a - mean * s2
        a2 = a2 - 2 * mean * a + mean * mean * s2
        value = s2 - 2 * p_y + block.known
        first = 2 * (a1 - p_y * d_y)
        second = 2 * (2 * a2 - variance * s2 - p_y * (d_y * d_y - variance))
    return value, -beta * beta * first, beta**4 * second + 2 * beta**3 * first


def _sum(x: FloatArray, y: FloatArray | None = None) -> FloatArray:
    """Return the sum over classes of x, or of x y, in float64."""
    found: FloatArray = x.sum(axis=1) if y is None else np.einsum("ij,ij->i", x, y)
    return found.astype(np.float64, copy=False)


def newton(
    objective: Callable[[FloatArray], tuple[float, FloatArray, FloatArray]],
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    max_iter: int = 50,
    max_step: float = np.inf,
    tol: float = 1e-9,
    resolution: float = _RESOLUTION[np.dtype(np.float64)],
) -> Solution:
    """Return a local minimum of a smooth function in the box lower <= x <= upper.

    Projected Newton steps with backtracking. Eigenvalues of a Hessian that is not positive definite
    are replaced by their absolute values. It stops when the gradient of the free coordinates is at
    most `tol` times the loss, or when a step can no longer be seen in the loss.
    """
    x = np.clip(start, lower, upper)
    value, gradient, hessian = objective(x)
    for n_iter in range(max_iter):
        scale = max(abs(value), 1e-12)
        margin = _AT_BOUND * np.maximum(1.0, np.abs(x))
        at_lower = (x - lower <= margin) & (gradient > 0)
        at_upper = (upper - x <= margin) & (gradient < 0)
        free, step = ~(at_lower | at_upper), np.zeros_like(x)
        step[at_lower], step[at_upper] = (lower - x)[at_lower], (upper - x)[at_upper]
        if not np.isfinite(value) or not np.isfinite(hessian).all():
            return Solution(x, value, n_iter, converged=False)
        if np.abs(gradient[free]).max(initial=0.0) <= tol * scale and not step.any():
            return Solution(x, value, n_iter, converged=True)
        values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)])
        curvature = np.maximum(np.abs(values), 1e-8 * max(np.abs(values).sum(), 1e-300))
        step[free] = -vectors @ ((vectors.T @ gradient[free]) / curvature)
        step *= min(1.0, max_step / max(np.abs(step).max(), 1e-300))
        fraction = 1.0
        while True:
            candidate = np.clip(x + fraction * step, lower, upper)
            expected = float(gradient @ (x - candidate))
            new = objective(candidate)
            limit = value - _SUFFICIENT_DECREASE * expected + 4 * resolution * scale
            if new[0] <= limit or fraction < 1e-8:
                break
            fraction /= 2
        if new[0] > limit:
            return Solution(x, value, n_iter, converged=abs(expected) <= 1e-9 * scale)
        x, (value, gradient, hessian) = candidate, new
        if abs(expected) <= resolution * scale:
            return Solution(x, value, n_iter + 1, converged=True)
    return Solution(x, value, max_iter, converged=False)


def fit_logistic(
    design: FloatArray, target: NDArray[Any], weight: FloatArray, start: FloatArray
) -> Solution:
    """Return the coefficients with the smallest log loss of sigmoid(design @ x).

    Targets are numbers in [0, 1].
    """
    share = weight / weight.sum()
    # Newton's method works on uncorrelated columns of mean square 1: log p and log(1 - p) are
    # almost proportional if all probabilities are similar.
    size = np.sqrt(np.maximum(share @ (design * design), 1e-30))
    design = design / size
    gram = (design.T * share) @ design + _MIN_VARIANCE * np.eye(len(size))
    root = np.linalg.cholesky(gram).T
    design = design @ np.linalg.inv(root)

    def objective(x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        t = design @ x
        e = np.exp(-np.abs(t))
        p = np.where(t > 0, 1.0, e) / (1 + e)
        # The constant makes tolerances absolute: the loss of a class that its probability separates
        # from the rest only tends to 0.
        value = 1 + float(share @ (np.maximum(t, 0) + np.log1p(e) - target * t))
        hessian = (design.T * (share * p * (1 - p))) @ design
        return value, design.T @ (share * (p - target)), hessian

    # At coefficients of 0 no sample is certain, so there is always a slope to follow.
    first = min((root @ (start * size), 0 * start), key=lambda x: objective(x)[0])
    no_bound = np.full(len(size), np.inf)
    found = newton(objective, first, -no_bound, no_bound, max_iter=100)
    return replace(found, x=np.linalg.solve(root, found.x) / size, value=found.value - 1)
