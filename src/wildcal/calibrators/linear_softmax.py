"""The cross-entropy of softmax(W x + b), and its minimum.

Vector, matrix, Dirichlet and structured scaling are all multinomial logistic regressions on some
function x of the logits. They differ in x, in whether W is a diagonal or a full matrix, and in
what a quadratic penalty pulls the parameters towards. That is all they say; the rest is here.

The objective is the weighted mean cross-entropy plus sum(ridge * (theta - center)²), which is
convex. Rows are walked in pieces: element-wise work and matrix products in the precision of the
logits, sums over pieces in float64, nothing of size N x K kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from wildcal.calibrators.lbfgs import minimize_lbfgs
from wildcal.calibrators.linear_map import (
    Features,
    diagonal_scores,
    matrix_scores,
    total_weight,
)
from wildcal.calibrators.temperature import TemperatureFit, bound_notes
from wildcal.core.arrays import BoolArray, FloatArray, Labels, Proba, Source, working_dtype
from wildcal.core.blocks import added, map_pieces
from wildcal.core.calibrator import FitSummary
from wildcal.core.objective import Point
from wildcal.core.optimize import (
    RESOLUTION_FLOAT32,
    RESOLUTION_FLOAT64,
    Solution,
    minimize_in_box,
)

# Up to this many parameters a Hessian is built and Newton needs about ten passes; beyond, L-BFGS.
NEWTON_PARAMETERS = 500
_NEWTON_STEPS = 100
_FLATTEST = 1e-6
# Passes over the data that L-BFGS may take: many when they are cheap, few when they are not.
_PASSES, _FEWEST_PASSES, _PASS_BUDGET = 1000, 100, 2e12
# Entries and rows of a piece: larger than a cache, because matrix products like long operands, and
# because the sum over pieces is as large as W.
_PIECE = 1 << 18
_PIECE_ROWS = 1000
# Matrices as large as W that a fit holds: 40 of the history of L-BFGS, and what is around them.
_COPIES = 50
MOST_BYTES = 16 << 30
"""A fit that would need more is refused before it begins."""


def check_memory(n_classes: int) -> None:
    """Raise a ValueError if a full matrix of so many classes takes too much memory to fit.

    >>> check_memory(1000)
    """
    parameters = n_classes * (n_classes + 1)
    needed = 8 * _COPIES * parameters
    if needed > MOST_BYTES:
        raise ValueError(
            f"a full matrix of {n_classes:,} classes has {parameters:,} parameters, whose fit needs"
            f" {needed / 1e9:.0f} GB of memory ({MOST_BYTES >> 30} GiB at most). Use vector, svs or"
            " ts, which have few parameters for each class."
        )


@dataclass(frozen=True, slots=True)
class LinearFit:
    """Fitted parameters, with the company they were found in."""

    theta: FloatArray
    loss_before: float
    loss_after: float
    iterations: int
    converged: bool

    def summary(self, ts: TemperatureFit) -> FitSummary:
        """Return the record of a fit that began with temperature scaling."""
        return FitSummary(
            loss="nll + penalty",
            loss_before=self.loss_before,
            loss_after=self.loss_after,
            iterations=ts.solution.iterations + self.iterations,
            converged=ts.solution.converged and self.converged,
            notes=bound_notes(ts),
        )


@dataclass(frozen=True, slots=True)
class Penalty:
    """Weights of the squares of the parameters of a full matrix, by the part they belong to."""

    off_diagonal: float
    diagonal: float
    intercept: float

    @staticmethod
    def structured(
        n_classes: int, n: float, off_diagonal: float | None, ridge: float, intercept: float | None
    ) -> "Penalty":
        """Return K (K - 1) / N, ridge K / N and K / N, unless given otherwise."""
        share = n_classes / n
        return Penalty(
            share * (n_classes - 1) if off_diagonal is None else off_diagonal,
            ridge * share,
            share if intercept is None else intercept,
        )

    def arrays(self, n_classes: int, diagonal: float) -> tuple[FloatArray, FloatArray]:
        """Return ridge and center in the shape of theta, centered at `diagonal` times identity."""
        eye = np.eye(n_classes + 1, n_classes)
        ridge = np.where(eye > 0, self.diagonal, self.off_diagonal)
        ridge[-1] = self.intercept
        return ridge, diagonal * eye


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows: features, labels, probabilities, weights (of mean one row each), and loss."""

    x: Proba
    y: Labels
    proba: Proba
    weight: Proba
    loss: float


@dataclass(frozen=True, slots=True)
class _Steps:
    """The units that a search takes its steps in; theta and steps have the same shape."""

    unit: FloatArray
    """Of each parameter: after such a step the loss has curved about equally."""
    origin: float = 0.0
    along: FloatArray | None = None
    """Of each class, the direction of length 1 in which the pull of b curves the loss more."""
    part: FloatArray | None = None
    """How much shorter steps along it are, less one."""

    def theta(self, steps: FloatArray) -> FloatArray:
        """Return the change of theta that some steps make."""
        if self.along is None or self.part is None:
            return self.unit * steps
        shorter = self.along * (self.part * _apart((self.along * steps).sum(axis=0)))
        moved = self.unit * (steps + shorter)
        moved[-1] -= self.origin * _apart(moved[:-1].sum(axis=0))
        return moved

    def gradient(self, by_theta: FloatArray) -> FloatArray:
        """Return derivatives by steps from those by theta."""
        if self.along is None or self.part is None:
            return self.unit * by_theta
        by_theta = by_theta.copy()
        by_theta[:-1] -= self.origin * _apart(by_theta[-1])
        by_unit = self.unit * by_theta
        shorter = self.along * _apart(self.part * (self.along * by_unit).sum(axis=0))
        return np.asarray(by_unit + shorter)

    def hessian(self, by_theta: FloatArray) -> FloatArray:
        """Return the Hessian by steps from that by theta."""
        if self.along is None:
            unit = self.unit.ravel()
            return np.asarray(unit[:, None] * by_theta * unit)
        once = np.stack([self.gradient(r.reshape(self.unit.shape)).ravel() for r in by_theta])
        return np.stack([self.gradient(c.reshape(self.unit.shape)).ravel() for c in once.T])


def _apart(of_classes: FloatArray) -> FloatArray:
    """Return numbers of classes less their mean: what all scores have in common says nothing."""
    return np.asarray(of_classes - of_classes.mean(axis=0))


@dataclass(slots=True)
class LinearSoftmax(ABC):
    """Penalized cross-entropy of softmax(W x + b); subclasses say what shape W has.

    theta has shape (rows, K): one parameter per class in each of its rows, b in the last.
    """

    features: Features
    logits: Source
    y: Labels
    weight: FloatArray | None
    ridge: FloatArray
    center: FloatArray
    origin: float = 0.0
    """What is taken off all features before they are worked with, and comes back through b: of
    logits around 10,000, float32 keeps three digits behind the point, and slopes and b can hardly
    be told apart. It changes no result but by rounding."""

    @abstractmethod
    def scores(self, theta: FloatArray, x: Proba) -> Proba:
        """Return W x + b for each row of x."""

    @abstractmethod
    def first(self, x: Proba, error: Proba) -> FloatArray:
        """Return d loss / d theta of some rows; `error` is their weight times P - Y."""

    @abstractmethod
    def second(self, x: Proba, proba: Proba, weight: Proba) -> FloatArray:
        """Return the Hessian of the loss of some rows, theta flattened."""

    @abstractmethod
    def second_diagonal(self, x: Proba, spread: Proba) -> FloatArray:
        """Return the diagonal of `second`; `spread` is the weight times P (1 - P)."""

    @final
    def _look(self, theta: FloatArray, total: float, piece: slice) -> "_Piece":
        """Return what the rows of a piece show; `total` is the weight of all rows."""
        logits, y = self.logits[piece], self.y[piece]
        x = self.features(logits)
        if self.origin:
            x -= x.dtype.type(self.origin)
            moved = theta[-1] + self.origin * _apart(theta[:-1].sum(axis=0))
            theta = np.vstack([theta[:-1], moved])
        weight = np.ones(len(y)) if self.weight is None else self.weight[piece]
        s = self.scores(theta, x)
        ruled_out = np.isneginf(logits)
        if ruled_out.any():
            s[ruled_out] = -np.inf
            # No parameter could give such a true class a probability; leave the row out.
            lost = ruled_out[np.arange(len(y)), y]
            weight = np.where(lost, 0.0, weight)
        s -= s.max(axis=1, keepdims=True)
        true = s[np.arange(len(y)), y].astype(np.float64)
        proba = np.exp(s, out=s)
        sums = proba.sum(axis=1)
        proba /= sums[:, None]
        ell = np.log(sums.astype(np.float64)) - true
        loss = float(weight @ np.where(weight > 0, ell, 0.0)) / total
        return _Piece(x, y, proba, (weight / total).astype(x.dtype), loss)

    @final
    def _walk(self, theta: FloatArray, function: Callable[["_Piece"], Any]) -> Any:
        """Return the sum of a function of all pieces."""
        whole = total_weight(self.y, self.weight)
        elements = max(_PIECE, _PIECE_ROWS * self.logits.shape[1])
        rows = max(1, elements // self.logits.shape[1])
        return map_pieces(
            self.logits, lambda piece: function(self._look(theta, whole, piece)), rows, added
        )

    def evaluate(self, theta: FloatArray, *, hessian: bool) -> Point:
        """Return the loss and its derivatives, theta flattened; without a Hessian an empty one."""

        def look(piece: _Piece) -> tuple[Any, ...]:
            x, proba, weight = piece.x, piece.proba, piece.weight
            curvature = self.second(x, proba, weight) if hessian else 0.0
            proba[np.arange(len(x)), piece.y] -= 1
            proba *= weight[:, None]
            return piece.loss, self.first(x, proba), curvature

        off = theta - self.center
        value, gradient, curvature = self._walk(theta, look)
        if self.origin:  # all features are larger by so much than those that were walked over
            gradient[:-1] += self.origin * _apart(gradient[-1])
            curvature = self._with_origin(curvature) if hessian else curvature
        value += float((self.ridge * off * off).sum())
        gradient = gradient + 2 * self.ridge * off
        if hessian:
            curvature = curvature + np.diag(2 * self.ridge.ravel())
        return Point(value, gradient.ravel(), curvature if hessian else np.empty((0, 0)))

    def _with_origin(self, curvature: FloatArray) -> FloatArray:
        """Return the Hessian by theta from that by slopes and b of the features walked over."""
        k = self.center.shape[1]
        for side in (curvature, curvature.T):  # a view: both sides are changed
            by_row = side.reshape(-1, k, len(side))
            by_row[:-1] += self.origin * _apart(by_row[-1])
        return curvature

    @property
    def exact(self) -> bool:
        """Whether values carry the rounding of float64 rather than of float32."""
        return working_dtype(self.logits.dtype) == np.float64

    @property
    def resolution(self) -> float:
        """How finely the loss is known, of its size."""
        return RESOLUTION_FLOAT64 if self.exact else RESOLUTION_FLOAT32

    def minimize(self, start: FloatArray, fixed: BoolArray | None = None) -> LinearFit:
        """Return the minimum, searched from `start`; parameters that are `fixed` stay there."""
        return (self._newton if start.size <= NEWTON_PARAMETERS else self._lbfgs)(start, fixed)

    def _newton(self, start: FloatArray, fixed: BoolArray | None) -> LinearFit:
        units = self._units(start, fixed)

        def objective(steps: FloatArray) -> Point:
            at = self.evaluate(start + units.theta(steps.reshape(start.shape)), hessian=True)
            gradient = units.gradient(at.gradient.reshape(start.shape)).ravel()
            return Point(at.value, gradient, units.hessian(at.hessian))

        no_bound = np.full(start.size, np.inf)
        solution = minimize_in_box(
            objective,
            np.zeros(start.size),
            -no_bound,
            no_bound,
            max_iter=_NEWTON_STEPS,
            resolution=self.resolution,
        )
        return self._fitted(start, units, solution)

    def _lbfgs(self, start: FloatArray, fixed: BoolArray | None) -> LinearFit:
        units = self._units(start, fixed)

        def objective(steps: FloatArray) -> tuple[float, FloatArray]:
            at = self.evaluate(start + units.theta(steps.reshape(start.shape)), hessian=False)
            return at.value, units.gradient(at.gradient.reshape(start.shape)).ravel()

        cost = float(np.prod(self.logits.shape)) * start.size / start.shape[1]
        solution = minimize_lbfgs(
            objective,
            np.zeros(start.size),
            exact=self.exact,
            max_iter=int(np.clip(_PASS_BUDGET / cost, _FEWEST_PASSES, _PASSES)),
        )
        return self._fitted(start, units, solution)

    def _units(self, start: FloatArray, fixed: BoolArray | None) -> _Steps:
        """Return steps after which the loss has curved about equally."""

        def look(piece: _Piece) -> FloatArray:
            proba = piece.proba
            return self.second_diagonal(piece.x, proba * (1 - proba) * piece.weight[:, None])

        ridge = 2 * self.ridge
        if self.origin:  # what pulls b is looked at below
            ridge[-1] = 0.0
        curvature = ridge + self._walk(start, look)
        # Where all rows are certain nothing curves; the unit is then that of the parameter.
        unit = 1 / np.sqrt(np.maximum(curvature, _FLATTEST))
        unit = unit if fixed is None else unit * ~fixed
        if not self.origin:
            return _Steps(unit)
        # b is what the offset of the features that are walked over leaves, after the slopes took
        # theirs: b = b' - origin Σ W, up to what all classes have in common. Its pull curves the
        # loss along that direction, and there by as much as the offset is large.
        along = unit.copy()
        along[:-1] *= -self.origin
        length = np.sqrt((along * along).sum(axis=0))
        more = 2 * self.ridge[-1] * length**2
        return _Steps(unit, self.origin, along / length, 1 / np.sqrt(1 + more) - 1)

    def _fitted(self, start: FloatArray, units: _Steps, solution: Solution) -> LinearFit:
        return LinearFit(
            start + units.theta(solution.x.reshape(start.shape)),
            self.evaluate(start, hessian=False).value,
            float(solution.value),
            solution.iterations,
            solution.converged,
        )


@final
class DiagonalSoftmax(LinearSoftmax):
    """W is a diagonal: theta[0] holds it, theta[1] is b."""

    __slots__ = ()

    def scores(self, theta: FloatArray, x: Proba) -> Proba:
        """Return v * x + b for each row of x."""
        return diagonal_scores(theta, x)

    def first(self, x: Proba, error: Proba) -> FloatArray:
        """Return the gradient by v and b."""
        return np.stack([_column_dots(error, x), error.sum(axis=0, dtype=np.float64)])

    def second(self, x: Proba, proba: Proba, weight: Proba) -> FloatArray:
        """Return w p_j (1[j = k] - p_k), times x_j and x_k where a slope is moved."""
        moved = np.hstack([proba * x, proba])
        blocks = -(moved.T * weight) @ moved
        k = x.shape[1]
        once = weight @ (proba * x)
        every = np.arange(k)
        blocks[every, every] += weight @ (proba * x * x)
        blocks[every, every + k] += once
        blocks[every + k, every] += once
        blocks[every + k, every + k] += weight @ proba
        return blocks.astype(np.float64)

    def second_diagonal(self, x: Proba, spread: Proba) -> FloatArray:
        """Return the second derivatives by each v and b."""
        return np.stack([_column_dots(spread, x * x), spread.sum(axis=0, dtype=np.float64)])


@final
class FullSoftmax(LinearSoftmax):
    """W is a matrix: theta[j] holds the weights of feature j in every score, theta[K] is b."""

    __slots__ = ()

    def scores(self, theta: FloatArray, x: Proba) -> Proba:
        """Return W x + b for each row of x."""
        return matrix_scores(theta, x)

    def first(self, x: Proba, error: Proba) -> FloatArray:
        """Return the gradient by W and b."""
        return np.vstack([x.T @ error, error.sum(axis=0, dtype=np.float64)])

    def second(self, x: Proba, proba: Proba, weight: Proba) -> FloatArray:
        """Return w p_j (1[j = k] - p_k) x_l x_m, with 1 for the x of an intercept."""
        n, k = x.shape
        x1 = np.column_stack([x, np.ones(n, x.dtype)])
        moved = (x1[:, :, None] * proba[:, None, :]).reshape(n, -1)
        hessian = -((moved.T * weight) @ moved).astype(np.float64)
        by_class = hessian.reshape(k + 1, k, k + 1, k)
        for c in range(k):
            by_class[:, c, :, c] += (x1.T * (weight * proba[:, c])) @ x1
        return hessian

    def second_diagonal(self, x: Proba, spread: Proba) -> FloatArray:
        """Return the second derivatives by each entry of W and b."""
        return np.vstack([(x * x).T @ spread, spread.sum(axis=0, dtype=np.float64)])


def _column_dots(a: Proba, b: Proba) -> FloatArray:
    return np.asarray(np.einsum("nk,nk->k", a, b), np.float64)
