"""EM-BCTS: class weights for a window whose classes are more or less frequent than clean ones."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, final

import numpy as np

from wildcal._old.calibrators.lbfgs import minimize_lbfgs
from wildcal._old.core.arrays import FloatArray, Labels, Logits, Proba
from wildcal._old.core.block import Block
from wildcal._old.core.bound import Bound, bound_matrix
from wildcal._old.core.calibrator import FitSummary
from wildcal._old.core.checks import check_temperature
from wildcal._old.core.optimize import Solution
from wildcal._old.core.rows import Rows
from wildcal._old.core.stored import ARRAY, REAL, stored
from wildcal._old.window.clean import scaled, summary
from wildcal._old.window.reader import Told, WindowReader

# On the squares of the biases, which are otherwise known up to a constant only; a class that no
# clean row has would be ruled out.
_RIDGE: Final = 1e-4
_STEPS: Final = 1000
_STILL: Final = 1e-9
_LEAST: Final = 1e-12
_NO_SHARE: Final = 1e-290
# Where EM is still on its way, Newton ends it: with up to so many classes, whose Hessian is 32 MB.
_NEWTON_CLASSES: Final = 2000
_NEWTON_STEPS: Final = 50
# Nats per row between the likelihood of some shares and the largest one: what Newton ends at, and
# what is not worth a word. Shares that EM settled at have about 1e-7.
_EXACT, _CLOSE = 1e-12, 1e-6
_NOT_FOUND: Final = (
    "the class shares had not settled when the search for them ended; those of its last step were"
    " taken."
)


@final
@dataclass(kw_only=True, eq=False)
class LabelShift(WindowReader):
    """p_k ∝ (q_k / π_k) softmax(z / T + b)_k, q the class shares of the window, found by EM.

    T and the bias b of each class are fitted on the clean rows (BCTS), π is the mean of these
    probabilities there. EM makes q the most likely shares for the window's unlabeled rows, given
    that rows of a class look as they do on clean data: right for label shift, wrong for any other.
    Where EM is slow, because rows tell little of their class, Newton steps find them.
    A row without a window has q = π. The most probable class may change.

    Notes
    -----
    Alexandari, Kundaje, Shrikumar, Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation, ICML 2020; the EM is that of Saerens et al., 2002. Ours
    has a ridge of 0.0001 on b. With one row, the shares are those of one class.
    """

    name = "em-bcts"
    title = "class shares by EM after bias-corrected temperature scaling"
    reference = "Alexandari et al., ICML 2020"
    stores = "2 K + 1 numbers"
    preserves_accuracy: ClassVar[bool] = False

    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    bias_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    prior_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)
        shapes = self.bias_.shape, self.prior_.shape
        if shapes != ((self.n_classes_,), (self.n_classes_,)):
            raise ValueError(f"bias and prior must be {self.n_classes_} numbers, got {shapes}")
        if not (self.prior_ > 0).all() or abs(self.prior_.sum() - 1) > 1e-6:
            raise ValueError("prior must be positive shares that sum to 1")

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        fit = scaled(rows)
        share = np.full(len(y), 1 / len(y)) if weight is None else weight / weight.sum()
        z = _below_top(logits) / fit.temperature
        found = fit_bias(z, y, share)
        at = found.x
        self.temperature_ = float(np.clip(fit.temperature / np.exp(at[0]), 1e-6, 1e6))
        self.bias_ = at[1:]
        prior = np.maximum(share @ _softmax(z * np.exp(at[0]) + self.bias_), _LEAST)
        self.prior_ = prior / prior.sum()
        told = summary(rows, fit)
        return replace(told, converged=told.converged and found.converged)

    def _alone(self) -> FloatArray:
        return np.ones(self.n_classes_)

    def _read(self, logits: Logits) -> Told:
        p = _softmax(_below_top(logits) / self.temperature_ + self.bias_)
        shares, short = found_shares(p, self.prior_)
        return Told(shares / self.prior_, () if short <= _CLOSE else (_NOT_FOUND,))

    def _numbers(self, context: Any) -> FloatArray:
        numbers = super()._numbers(context)
        if not (numbers >= 0).all() or not numbers.any():
            raise ValueError("the class weights of the context must not be negative, nor all zero.")
        return numbers

    def _apply(self, rows: Rows, numbers: FloatArray, which: Labels) -> Bound:
        with np.errstate(divide="ignore"):
            more = self.bias_ + np.log(numbers)

        def fill(block: Block, out: Proba) -> None:
            z = _below_top(block.original) / self.temperature_
            out[:] = _softmax(z + more[which[block.rows]])

        return bound_matrix(rows.logits, fill)

    def _describe(self) -> list[str]:
        low, high = self.bias_.min(), self.bias_.max()
        return [
            f"Logits are divided by {self.temperature_:.4g} and moved by {low:.3g} to {high:.3g};"
            " classes are weighted by their share of the window."
        ]


def fit_bias(z: FloatArray, y: Labels, share: FloatArray) -> Solution:
    """Find log s and b that minimize the log loss of softmax(s z + b), and a small ridge on b."""
    known = np.arange(len(y)), y
    n_classes = z.shape[1]

    def objective(at: FloatArray) -> tuple[float, FloatArray]:
        scale, bias = float(np.exp(np.clip(at[0], -20, 20))), at[1:]
        t = z * scale + bias
        top = t.max(axis=1, keepdims=True)
        log = t - top - np.log(np.exp(t - top).sum(axis=1, keepdims=True))
        off = np.exp(log)
        off[known] -= 1
        by_bias = share @ off + _RIDGE * bias
        by_scale = float(share @ (off * z).sum(axis=1)) * scale
        loss = -float(share @ log[known]) + _RIDGE * float(bias @ bias) / 2
        return loss, np.concatenate([[by_scale], by_bias])

    return minimize_lbfgs(objective, np.zeros(n_classes + 1), exact=True, max_iter=500)


def class_shares(proba: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the class shares q that are most likely for rows with these probabilities.

    >>> proba = np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.3, 0.7]])
    >>> class_shares(proba, np.array([0.5, 0.5])).round(3)
    array([0.598, 0.402])
    """
    return found_shares(proba, prior)[0]


def found_shares(proba: FloatArray, prior: FloatArray) -> tuple[FloatArray, float]:
    """Return these shares, and how far below the largest one their likelihood may be at most.

    By EM: q ← mean over rows of (q_k / π_k) p_k, normalized in each row. The distance is in nats
    per row; 0 is said of shares that EM no longer moves.
    """
    ratio = proba / prior
    ratio /= ratio.max(axis=1, keepdims=True)  # a factor of a row's own changes no share
    shares = prior
    for _ in range(_STEPS):
        # Two products of a matrix and a vector, in place of a new matrix. A row whose classes have
        # no share left at all stands for none.
        total = np.maximum(ratio @ shares, _NO_SHARE)
        new = shares * ((1 / total) @ ratio)
        new /= new.sum()
        if np.abs(new - shares).max() < _STILL:
            return np.asarray(new), 0.0
        shares = new
    if len(prior) > _NEWTON_CLASSES:
        return shares, _short(ratio / np.maximum(ratio @ shares, _NO_SHARE)[:, None], shares)
    return _newton_shares(ratio, shares)


def _newton_shares(ratio: FloatArray, start: FloatArray) -> tuple[FloatArray, float]:
    """Return the q that maximizes mean log(ratio q), and how far below the maximum it may be.

    With Σ q taken off, the maximum over q >= 0 has sum one by itself. A primal-dual interior-point
    method: s are the multipliers of q >= 0, and q s falls towards 0 for each class.
    """
    n, k = ratio.shape
    q, s = 0.99 * start + 0.01 / k, np.full(k, 0.01)
    best, least = start, np.inf
    for _ in range(_NEWTON_STEPS):
        each = ratio / (ratio @ q)[:, None]
        short = _short(each, q)
        if short < least:
            best, least = q / q.sum(), short
        if short <= _EXACT:
            break
        center = 0.1 * float(q @ s) / k / q
        hessian = each.T @ each / n
        hessian[np.diag_indices(k)] += s / q
        step = np.linalg.solve(hessian, center - 1 + each.mean(axis=0))
        other = center - s - s / q * step
        q, s = _inside(q, step), _inside(s, other)
    return best, least


def _short(each: FloatArray, shares: FloatArray) -> float:
    """Return how far below the maximum the mean log likelihood is at most, as it is concave.

    `each` is the likelihood of a row under each class, relative to that under these shares.
    """
    return float(each.mean(axis=0).max() * shares.sum() - 1)


def _inside(x: FloatArray, step: FloatArray) -> FloatArray:
    """Return x + step, or as much of the step as leaves all positive."""
    fall = float((-step / x).max())
    return np.asarray(x + step * min(1.0, 0.99 / fall if fall > 0 else 1.0))


def _below_top(logits: Logits) -> FloatArray:
    """Return z - max z in float64, at least -10,000 so that no product with zero is NaN."""
    z = logits.astype(np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(np.maximum(z - z.max(axis=1, keepdims=True), -1e4))


def _softmax(t: FloatArray) -> FloatArray:
    e = np.exp(t - t.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
