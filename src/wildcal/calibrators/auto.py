"""The default calibrator: a mixture of nested linear maps that falls back to the identity.

Fit:
1. Fit five members, each linear in its parameters, by Newton's method (`_minimize`).
2. Predict each sample without itself, approximately (`_leave_one_out`).
3. Weight the members by the likelihood of these predictions, with a prior on the identity that
   fades as the gain over it grows (`_safe_weights`).
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from wildcal.core.arrays import (
    BLOCK_ENTRIES,
    Array,
    FloatArray,
    IntArray,
    clip,
    is_top_class,
    log_softmax,
    softmax,
)
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.validation import Samples, absent_class_warnings

# Ridge on the numbers of a class: times K, off the diagonal times K (K - 1).
_RIDGE: Final = 0.6
# Shrinkage to the identity: p as target of all samples, with the weight of this many mistakes.
_SHRINKAGE: Final = 1.0
# Prior on the identity, in samples: start and range. Prior on each other member.
_PRIOR, _MIN_PRIOR, _MAX_PRIOR = 5.0, 0.05, 20.0
_PRIOR_OTHERS: Final = 0.1
# It fades from a gain of 3 nats (odds of 20 : 1) on, to which a sample adds at most one bit.
_DECISIVE_GAIN: Final = 3.0
_MAX_SAMPLE_GAIN: Final = math.log(2)
# Members other than identity and ts are left out below this weight.
_MIN_WEIGHT: Final = 1e-3
# Features keep a tenth of their spread where the slope of `ts` is near 0 or negative.
_MIN_SCALE: Final = 0.1
# Part of the samples beyond each end of the range of r.
_TAIL: Final = 0.005
# Smaller log-probabilities are those of masked classes.
_MASKED: Final = -9e3
# Larger numbers of classes make a member slow and gain little.
_MAX_VECTOR, _MAX_MATRIX = 250, 32
# Weights come from at most so many samples.
_N_WEIGHTS: Final = 10_000
# Curvature comes from samples x parameters = 500,000, but from 2,000 to 20,000 samples.
_MAX_ENTRIES, _MIN_CURVATURE, _MAX_CURVATURE = 500_000, 2_000, 20_000
# Newton's method stops when a step gains less, in nats of all samples together.
_TOLERANCE: Final = 1e-4
_MAX_ITER: Final = 30


def _features(xp: Any, x: Array, scale: float, uniform: float) -> Array:
    """Return log((1 - u) softmax(scale x) + u / K)."""
    return xp.log((1 - uniform) * softmax(xp, scale * x) + uniform / x.shape[-1])


def _curve_terms(xp: Any, x: Array) -> tuple[Array, Array]:
    """Return r = -log(1 - confidence) / 4, shape (n_samples, 1), and 1 at the top class."""
    top = is_top_class(xp, x)
    rest = xp.sum(xp.exp(x) * (1 - top), axis=-1, keepdims=True)
    return xp.log(rest) / -4, top


class _Scale:
    """The member `ts`: s = t x. Its methods are those of every member."""

    def __init__(self, x: FloatArray):
        self.x = x
        self.n_classes = x.shape[1]

    def part(self, rows: IntArray) -> "_Scale":
        """Return the member of some samples."""
        return type(self)(np.asfortranarray(self.x[rows]))

    def ridge(self) -> tuple[FloatArray, FloatArray]:
        """Return parameters that change nothing, and the matrix of the penalty around them."""
        return np.ones(1), np.zeros((1, 1))

    def scores(self, t: FloatArray) -> FloatArray:
        """Return the scores at parameters t, one row for all samples or one for each."""
        return np.asarray(t[..., :1] * self.x)

    def gradients(self, g: FloatArray) -> FloatArray:
        """Return the gradient of each sample's loss from the one by its scores."""
        return np.asarray((g * self.x).sum(axis=1, keepdims=True))

    def gradient(self, g: FloatArray) -> FloatArray:
        """Return the sum of the gradients."""
        return np.asarray(self.gradients(g).sum(axis=0))

    def hessian(self, q: FloatArray, w: FloatArray) -> FloatArray:
        """Return the curvature of sum w log sum exp(s), where q = softmax(s)."""
        qx = q * self.x
        return np.array([[w @ ((qx * self.x).sum(axis=1) - qx.sum(axis=1) ** 2)]])


class _Curve(_Scale):
    """s = a(r) x + d(r) [top class], a and d quadratic in r."""

    def __init__(self, x: FloatArray):
        super().__init__(x)
        r, self.top = _curve_terms(np, x)
        self.r = r[:, 0]
        self.h = np.hstack([np.ones_like(r), r - 0.5, r * r - 0.5])

    def ridge(self) -> tuple[FloatArray, FloatArray]:
        return np.eye(6)[0], np.diag([0.0, 1, 1, 1, 1, 1])

    def scores(self, t: FloatArray) -> FloatArray:
        a, d = (t[..., :3] * self.h).sum(axis=1), (t[..., 3:] * self.h).sum(axis=1)
        return np.asarray(a[:, None] * self.x + d[:, None] * self.top)

    def gradients(self, g: FloatArray) -> FloatArray:
        by_a, by_d = (g * self.x).sum(axis=1), (g * self.top).sum(axis=1)
        return np.hstack([self.h * by_a[:, None], self.h * by_d[:, None]])

    def hessian(self, q: FloatArray, w: FloatArray) -> FloatArray:
        mean, q_top = (q * self.x).sum(axis=1), (q * self.top).sum(axis=1)
        variance = (q * self.x * self.x).sum(axis=1) - mean * mean
        covariance = q_top * ((self.x * self.top).sum(axis=1) - mean)
        parts = [(self.h.T * (w * v)) @ self.h for v in (variance, covariance, q_top * (1 - q_top))]
        return np.block([[parts[0], parts[1]], [parts[1], parts[2]]])


class _Vector(_Scale):
    """s = v x + c. The mean of v has no penalty."""

    def ridge(self) -> tuple[FloatArray, FloatArray]:
        k = self.n_classes
        penalty = _RIDGE * k * np.eye(2 * k)
        penalty[:k, :k] -= _RIDGE
        return np.repeat([1.0, 0.0], k), penalty

    def scores(self, t: FloatArray) -> FloatArray:
        return np.asarray(t[..., : self.n_classes] * self.x + t[..., self.n_classes :])

    def gradients(self, g: FloatArray) -> FloatArray:
        return np.hstack([g * self.x, g])

    def hessian(self, q: FloatArray, w: FloatArray) -> FloatArray:
        f, k = self.gradients(q) * np.sqrt(w)[:, None], self.n_classes
        h, i = -(f.T @ f), np.arange(k)
        h[i, i] += w @ (q * self.x * self.x)
        h[i, i + k] += w @ (q * self.x)
        h[i + k, i] += w @ (q * self.x)
        h[i + k, i + k] += w @ q
        return h


class _Matrix(_Scale):
    """s = W x + c, parameters as (K, K + 1). The mean of the diagonal of W has no penalty."""

    def __init__(self, x: FloatArray):
        super().__init__(x)
        self.x1 = np.hstack([x, np.ones((len(x), 1))])

    def ridge(self) -> tuple[FloatArray, FloatArray]:
        k = self.n_classes
        strength = np.full((k, k + 1), _RIDGE * k * (k - 1))
        strength[:, k] = _RIDGE * k
        np.fill_diagonal(strength, _RIDGE * k)
        penalty, diagonal = np.diag(strength.ravel()), np.arange(k) * (k + 2)
        penalty[np.ix_(diagonal, diagonal)] -= _RIDGE
        return np.eye(k, k + 1).ravel(), penalty

    def scores(self, t: FloatArray) -> FloatArray:
        if t.ndim == 1:
            return (t.reshape(self.n_classes, -1) @ self.x1.T).T
        return np.asarray(np.einsum("nkd,nd->nk", t.reshape(len(t), self.n_classes, -1), self.x1))

    def gradients(self, g: FloatArray) -> FloatArray:
        return (g[:, :, None] * self.x1[:, None, :]).reshape(len(g), -1)

    def gradient(self, g: FloatArray) -> FloatArray:
        return np.asarray(g.T @ self.x1).ravel()

    def hessian(self, q: FloatArray, w: FloatArray) -> FloatArray:
        f, d = self.gradients(q) * np.sqrt(w)[:, None], self.n_classes + 1
        h = -(f.T @ f)
        for k in range(self.n_classes):
            block = slice(k * d, (k + 1) * d)
            h[block, block] += (self.x1.T * (w * q[:, k])) @ self.x1
        return h


@dataclass(frozen=True)
class _Solution:
    t: FloatArray
    inverse_hessian: FloatArray
    n_iter: int
    converged: bool


def _minimize(
    member: _Scale, target: FloatArray, start: FloatArray, inverse: FloatArray | None = None
) -> _Solution:
    """Minimize -sum(target * log softmax(s)) + ridge by Newton's method.

    With an inverse Hessian, that of part of the samples, no other is computed.
    """
    center, penalty = member.ridge()
    rows = np.array_split(np.arange(len(target)), 1 + target.size // BLOCK_ENTRIES)
    blocks = [(member.part(each), np.asfortranarray(target[each])) for each in rows]
    totals = [block_target.sum(axis=1) for _, block_target in blocks]

    def evaluate(t: FloatArray) -> tuple[float, FloatArray, list[FloatArray]]:
        gradient, q = penalty @ (t - center), []
        value = (t - center) @ gradient / 2
        for (block, block_target), total in zip(blocks, totals, strict=True):
            s = block.scores(t)
            s -= s.max(axis=1, keepdims=True)
            value -= np.vdot(block_target.T, s.T)  # transposed: rows in memory
            np.exp(s, out=s)
            sums = s.sum(axis=1)
            s /= sums[:, None]
            value += total @ np.log(sums)
            gradient = gradient + block.gradient(total[:, None] * s - block_target)
            q.append(s)
        return float(value), gradient, q

    def inverse_hessian(q: list[FloatArray]) -> FloatArray:
        if inverse is not None:
            return inverse
        parts = zip(blocks, q, totals, strict=True)
        h = sum((block.hessian(each, total) for (block, _), each, total in parts), penalty)
        return np.asarray(np.linalg.inv(h + 1e-6 * np.eye(len(h))), dtype=np.float64)

    t, converged, n_iter = start, False, 0
    value, gradient, q = evaluate(t)
    while not converged and n_iter < _MAX_ITER:
        step = inverse_hessian(q) @ gradient
        gain = float(gradient @ step)
        # The parameters are near 1 or 0, unless the logits have another unit.
        size = min(1.0, max(1.0, np.abs(t).max()) / max(np.abs(step).max(), 1e-9))
        new, gradient, q = evaluate(t - size * step)
        while new > value - 1e-4 * size * gain and size >= 1e-9:
            size /= 2
            new, gradient, q = evaluate(t - size * step)
        t, value, n_iter, converged = t - size * step, new, n_iter + 1, gain < _TOLERANCE
    return _Solution(t, inverse_hessian(q), n_iter, converged)


def _leave_one_out(member: _Scale, fit: _Solution, y: IntArray, left_out: FloatArray) -> FloatArray:
    """Return the log-probability of each true class without the sample, or one copy of it.

    One more Newton step changes the scores by d = J H^-1 J' g, lengthened by the sample's own part
    of the curvature.
    """
    index = np.arange(len(y)), y
    s = member.scores(fit.t)
    q = softmax(np, s)
    g = q.copy()
    g[index] -= 1
    d = member.scores(member.gradients(left_out[:, None] * g) @ fit.inverse_hessian)
    along = np.maximum((d * g).sum(axis=1), 1e-12)
    own = ((q * d * d).sum(axis=1) - (q * d).sum(axis=1) ** 2) / along
    d /= np.maximum(1 - own, 0.1)[:, None]
    return np.asarray(log_softmax(np, s + d)[index])


def _mixture_weights(log_p: FloatArray, w: FloatArray, prior: FloatArray) -> FloatArray:
    """Return argmax of sum_i w_i log(v @ exp(log_p))_i + prior @ log(v) on the simplex.

    Newton's method with the sum as a constraint.
    """
    p, m = np.exp(log_p - log_p.max(axis=0)), len(prior)
    v = 0.5 * prior / prior.sum() + 0.5 / m

    def loss(v: FloatArray) -> float:
        return -float(w @ np.log(v @ p) + prior @ np.log(v))

    kkt = np.ones((m + 1, m + 1))
    kkt[m, m] = 0
    for _ in range(50):
        r = p / (v @ p)
        gradient = -(r @ w) - prior / v
        kkt[:m, :m] = (r * w) @ r.T + np.diag(prior / v**2)
        step = np.linalg.solve(kkt, np.append(-gradient, 0.0))[:m]
        gain, value = -float(gradient @ step), loss(v)
        if gain < _TOLERANCE:
            break
        size = min(1.0, 0.9 / max((-step / v).max(), 1e-12))
        while loss(v + size * step) > value - 1e-4 * size * gain and size > 1e-6:
            size /= 2
        v = v + size * step
        v /= v.sum()
    return np.asarray(v)


def _safe_weights(log_p: FloatArray, w: FloatArray) -> FloatArray:
    """Return the weights of members from their leave-one-out log-probabilities, identity first.

    Were the model calibrated, a gain of g nats over the identity would have a chance of about
    exp(-g), so the prior on the identity falls as the gain grows.
    """
    prior = np.full(len(log_p), _PRIOR_OTHERS)
    prior[0] = _PRIOR
    v = _mixture_weights(log_p, w, prior)
    gains = np.log(v @ np.exp(np.minimum(log_p - log_p[0], 700.0)))
    gain = float(w @ np.minimum(gains, _MAX_SAMPLE_GAIN))
    prior[0] = (
        np.clip(_PRIOR * _DECISIVE_GAIN / gain, _MIN_PRIOR, _MAX_PRIOR) if gain > 0 else _MAX_PRIOR
    )
    prior[1:] = min(_PRIOR_OTHERS, prior[0])
    return _mixture_weights(log_p, w, prior)


@dataclass(kw_only=True, eq=False, repr=False)
class AutoCalibrator(Calibrator):
    """p = sum_m w_m q_m(x), a mixture that uses as much of each map as the samples support.

    The members, with x = log((1 - u) softmax(b log p) + u / K) and u = 1 / (n + 1):

    ========  ==========================================================================
    identity  p = softmax(z)
    ts        softmax(b log p)
    curve     softmax(a(r) x + d(r) [top class]), a, d quadratic in r = -log(1 - confidence)
    vector    softmax(v x + c), up to 250 classes
    matrix    softmax(W x + c), up to 32 classes, from 2 K samples on
    ========  ==========================================================================

    It keeps the uncalibrated probabilities in the mixture, with a weight that falls as the gain
    over them becomes certain, so few labels do little harm. With labels of one class only it keeps
    them. The predicted class can change. OOD samples and domains are not used.

    Attributes
    ----------
    weights_
        Weights of the members in the order above; 0 for those that are left out.
    slope_
        b of `ts`.
    scale_, uniform_
        b, at least 0.1, and u of the features x.
    curve_
        a and d, shape (6,), or None.
    curve_range_
        Range of r. Values beyond it, half a per cent of the samples at either end, count as its
        ends: a quadratic function is fitted to few samples there, and to none beyond.
    vector_
        v and c, shape (2, K), or None.
    matrix_
        W transposed and, below it, c, shape (K + 1, K), or None.
    log_floor_
        Smaller log-probabilities count as this one: log(min(m / 2, 0.1 / K)), where m is the
        smallest positive probability of the calibration set.

    Notes
    -----
    The samples must be independent of each other and of the training set.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 4000)
    >>> y = np.repeat([0, 0, 0, 1], 1000)  # 75 % are classified correctly
    >>> AutoCalibrator().fit(logits, y).predict_proba(logits[:1]).round(2)
    array([[0.75, 0.25]])
    """

    name = "auto"
    title = "safe mixture of calibration maps"
    min_mistakes = 1

    weights_: FloatArray = field(init=False)
    slope_: float = field(init=False)
    scale_: float = field(init=False)
    uniform_: float = field(init=False)
    curve_: FloatArray | None = field(init=False)
    curve_range_: tuple[float, float] = field(init=False, default=(-math.inf, math.inf))
    vector_: FloatArray | None = field(init=False)
    matrix_: FloatArray | None = field(init=False)
    log_floor_: float = field(init=False)

    def _fit(self, data: Samples) -> FitInfo:
        y, w, k, n = data.y, data.weight, data.n_classes, float(data.weight.sum())
        index = np.arange(len(y)), y
        z = np.asfortranarray(data.logits)  # NumPy adds up columns faster than rows
        x = log_softmax(np, z)
        smallest = float(x.min(initial=0.0, where=x > _MASKED))
        self.log_floor_ = min(smallest - math.log(2), math.log(0.1 / k))
        x = self._log_proba(np, z)
        p = np.exp(x)
        correct = x.argmax(axis=1) == y
        shrinkage = _SHRINKAGE / max(w @ ~correct, w @ (1 - p.max(axis=1)), 1e-6)
        target = shrinkage * p
        target[index] += 1
        target *= w[:, None]
        # Samples are drawn in the order of their values: that in which they are given is arbitrary.
        order = np.lexsort((x[:, 0], x[:, 1], y))[np.random.default_rng(0).permutation(len(y))]
        seen = np.sort(order[:_N_WEIGHTS])

        def fit(member: _Scale) -> tuple[_Solution, FloatArray]:
            start, inverse = member.ridge()[0], None
            n_few = int(np.clip(_MAX_ENTRIES // len(start), _MIN_CURVATURE, _MAX_CURVATURE))
            if len(y) > 2 * n_few:
                few = np.sort(order[:n_few])
                share = target[few] * (n / w[few].sum())
                first = _minimize(member.part(few), share, start)
                start, inverse = first.t, first.inverse_hessian
            solution = _minimize(member, target, start, inverse)
            log_p = [
                _leave_one_out(member.part(rows), solution, y[rows], np.minimum(w[rows], 1.0))
                for rows in np.array_split(seen, 1 + len(seen) * len(start) // _MAX_ENTRIES)
            ]
            return solution, np.concatenate(log_p)

        fits = [fit(_Scale(x))]
        self.slope_, self.uniform_ = float(fits[0][0].t[0]), 1 / (1 + n)
        self.scale_ = max(self.slope_, _MIN_SCALE)
        features = _features(np, x, self.scale_, self.uniform_)
        curve = _Curve(features)
        fits.append(fit(curve))
        tails = np.quantile(curve.r, (_TAIL, 1 - _TAIL), weights=w, method="inverted_cdf")
        self.curve_range_ = float(tails[0]), float(tails[1])
        if k <= _MAX_VECTOR:
            fits.append(fit(_Vector(features)))
        if k <= _MAX_MATRIX and n >= 2 * k:
            fits.append(fit(_Matrix(features)))
        log_p = np.array([x[index][seen], *(each[1] for each in fits)])
        w = w[seen] * (n / w[seen].sum())
        weights = _safe_weights(log_p, w)
        if self._one_class_warnings(data):  # the original probabilities are kept
            weights = np.eye(len(log_p))[0]
        self._set_weights(weights, [each[0].t for each in fits])
        notes = absent_class_warnings(data) if self.weights_[3:].any() else []
        if self.slope_ < 0 and self.weights_[0] < 1:
            notes.append(
                "larger scores are correct less often. Are labels counted from 1, the columns in"
                " another order, or right and wrong exchanged?"
            )
        return FitInfo(
            loss_before=-float(w @ log_p[0]) / n,
            loss_after=-float(w @ np.log(self.weights_[: len(log_p)] @ np.exp(log_p))) / n,
            n_iter=sum(each[0].n_iter for each in fits),
            converged=all(each[0].converged for each in fits),
            warnings=tuple(notes),
            message="The loss after the fit is that of approximate leave-one-out predictions."
            + (" Domains are not used." if data.domain is not None else ""),
        )

    def _set_weights(self, weights: FloatArray, parameters: list[FloatArray]) -> None:
        """Store weights and parameters; members with a weight of almost 0 are left out."""
        k = self.n_classes_
        self.weights_ = np.zeros(5)
        self.weights_[: len(weights)] = weights
        self.weights_[2:] *= self.weights_[2:] >= _MIN_WEIGHT
        self.weights_ /= self.weights_.sum()
        _, _, has_curve, has_vector, has_matrix = self.weights_ > 0
        self.curve_ = parameters[1] if has_curve else None
        self.vector_ = parameters[2].reshape(2, k) if has_vector else None
        self.matrix_ = parameters[3].reshape(k, k + 1).T.copy() if has_matrix else None

    def _log_proba(self, xp: Any, z: Array) -> Array:
        """Return log-probabilities, none of them below the floor."""
        return log_softmax(xp, clip(xp, log_softmax(xp, z), self.log_floor_, None))

    def describe(self) -> str:
        """Return the weights of the mixture in words."""
        self.check_is_fitted()
        names = ("identity", "temperature scaling", "curve", "vector scaling", "matrix scaling")
        parts = [f"{100 * w:.3g} % {n}" for n, w in zip(names, self.weights_, strict=True) if w]
        return f"Mixture of {', '.join(parts)}."

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return the mixture of the members."""
        x, weights = self._log_proba(xp, z), self.weights_
        p = weights[0] * xp.exp(x) + weights[1] * softmax(xp, self.slope_ * x)
        x = _features(xp, x, self.scale_, self.uniform_)
        if self.curve_ is not None:
            r, top = _curve_terms(xp, x)
            r, c = clip(xp, r, *self.curve_range_), self.curve_
            a = c[0] + c[1] * (r - 0.5) + c[2] * (r * r - 0.5)
            d = c[3] + c[4] * (r - 0.5) + c[5] * (r * r - 0.5)
            p = p + weights[2] * softmax(xp, a * x + d * top)
        if self.vector_ is not None:
            p = p + weights[3] * softmax(xp, self.vector_[0, :] * x + self.vector_[1, :])
        if self.matrix_ is not None:
            p = p + weights[4] * softmax(xp, x @ self.matrix_[:-1, :] + self.matrix_[-1, :])
        return p / xp.sum(p, axis=-1, keepdims=True)

    def _frequency_warnings(self, samples: Samples) -> list[str]:
        # With few samples the identity keeps its weight on purpose.
        return super()._frequency_warnings(samples) if self.n_classes_ > _MAX_VECTOR else []
