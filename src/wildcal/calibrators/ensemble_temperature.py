"""Ensemble temperature scaling: a mixture of three distributions (Zhang et al., 2020)."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from wildcal.calibrators.temperature import DEFAULT_BOUNDS, Bounds, fit_temperature
from wildcal.core.arrays import Array, FloatArray, in_blocks, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.optimize import Loss, newton
from wildcal.core.validation import Samples, check_choice

# Of two mixtures whose losses agree this well, the simpler one is kept.
_TIE: Final = 1e-14
_MIN_WEIGHT: Final = 1e-12
# A true class of probability zero would make the Hessian of the log loss overflow.
_MIN_PROBA: Final = 1e-100
# A larger part of the uniform distribution would hide the predicted class in float32.
_MAX_UNIFORM: Final = 1 - 1e-3
_FACES: Final = ((0,), (2,), (0, 2), (1,), (0, 1), (1, 2), (0, 1, 2))


def fit_weights_mse(gram: FloatArray, target: FloatArray) -> tuple[FloatArray, float]:
    """Return the weights on the simplex that minimize the squared error, and that error.

    The squared error is w' gram w - 2 target' w + 1, where gram has the mean inner products of the
    components and target their mean probabilities of the true class. The minimum is the best of
    the minima on the seven faces of the simplex, each the solution of a linear system.
    """
    best, lowest = np.array([1.0, 0.0, 0.0]), np.inf
    for face in _FACES:  # those without softmax(z) first: on ties its weight is 0
        w = _stationary_point(gram, target, list(face))
        if w is not None:
            value = float(w @ gram @ w - 2 * target @ w + 1)
            if value < lowest - _TIE:
                best, lowest = w, value
    return best, lowest


def _stationary_point(gram: FloatArray, target: FloatArray, face: list[int]) -> FloatArray | None:
    """Return the minimum with nonzero weights on `face` only, None if a weight is negative."""
    n = len(face)
    system = np.ones((n + 1, n + 1))  # the last unknown is the multiplier of sum(w) = 1
    system[:n, :n], system[n, n] = gram[np.ix_(face, face)], 0.0
    solution = np.linalg.lstsq(system, np.append(target[face], 1.0), rcond=None)[0][:n]
    if solution.min() < 0 or solution.sum() <= 0:
        return None
    w = np.zeros(3)
    w[face] = solution / solution.sum()
    return w


def fit_weights_nll(p_y: FloatArray, weight: FloatArray) -> tuple[FloatArray, float]:
    """Return the weights on the simplex that minimize the cross-entropy, and that cross-entropy.

    `p_y` has the components' probabilities of the true class, shape (n_samples, 3). With sum(w) - 1
    added to the loss, its minimum over w >= 0 has sum one: along a ray the loss is -log s + s.
    """
    share, p_y = weight / weight.sum(), np.maximum(p_y, _MIN_PROBA)

    def objective(w: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        mixed = np.maximum(p_y @ w, _MIN_PROBA)
        ratio = p_y / mixed[:, None]
        value = float(w.sum() - 1 - share @ np.log(mixed))
        return value, 1 - share @ ratio, (ratio.T * share) @ ratio

    best, lowest = np.array([1.0, 0.0, 0.0]), objective(np.array([1.0, 0.0, 0.0]))[0]
    for start in ([0.9, 0.0, 0.1], [0.8, 0.1, 0.1]):
        free = np.array(start) > 0
        # Not 0: from there a weight that few samples need grows only by doubling.
        lower, upper = np.where(free, _MIN_WEIGHT, 0.0), np.where(free, 2.0, 0.0)
        w = newton(objective, np.array(start), lower, upper, max_iter=200).x
        w = np.where(w > 2 * _MIN_WEIGHT, w, 0.0)
        w = w / w.sum()
        if (value := objective(w)[0]) < lowest - _TIE * max(1.0, abs(lowest)):
            best, lowest = w, value
    return best, lowest


@dataclass(kw_only=True, eq=False, repr=False)
class EnsembleTemperatureScaling(Calibrator):
    """p = w0 softmax(z / T) + w1 softmax(z) + w2 / K, w on the simplex.

    Parameters
    ----------
    loss
        Loss that the weights minimize: "mse" (the published method) or "nll".
    temperature_loss
        Loss that T minimizes, before the weights: "nll" or "mse" (the published code).
    bounds
        Range of T.

    Attributes
    ----------
    temperature_
        T.
    weights_
        w, shape (3,).

    Notes
    -----
    The published code finds the weights with a general solver; here the quadratic program of the
    squared error is solved exactly. At T = 1 the first two components are equal, and w1 is 0.

    References
    ----------
    Zhang, Kailkhura and Han, Mix-n-match: ensemble and compositional methods for uncertainty
    calibration in deep learning, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0]] * 80)
    >>> y = np.repeat([0, 0, 0, 1], 20)  # 75 % are classified correctly
    >>> EnsembleTemperatureScaling().fit(logits, y).predict_proba(logits[:1]).round(6)
    array([[0.75, 0.25]])
    """

    name = "ets"
    title = "ensemble temperature scaling"
    reference = "Zhang et al., ICML 2020"
    preserves_accuracy = True

    loss: Loss = "mse"
    temperature_loss: Loss = "nll"
    bounds: Bounds = DEFAULT_BOUNDS
    temperature_: float = field(init=False)
    weights_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_choice("loss", self.loss, ("mse", "nll"))
        check_choice("temperature_loss", self.temperature_loss, ("nll", "mse"))

    def _fit(self, data: Samples) -> FitInfo:
        ts = fit_temperature(data, loss=self.temperature_loss, bounds=self.bounds)
        self.temperature_ = ts.temperature
        terms = in_blocks(
            lambda z, y: _terms(z, y.astype(np.int64), ts.temperature), data.logits, data.y
        )
        p_y = terms[:, 3:]
        if self.loss == "mse":
            pp, pq, qq, *target = np.average(terms, axis=0, weights=data.weight)
            gram = np.full((3, 3), target[2])
            gram[:2, :2] = [[pp, pq], [pq, qq]]
            self.weights_, after = fit_weights_mse(gram, np.array(target))
            before = float(qq - 2 * target[1] + 1)
        else:
            self.weights_, after = fit_weights_nll(p_y, data.weight)
            raw = np.maximum(p_y[:, 1], _MIN_PROBA)
            before = -float(np.average(np.log(raw), weights=data.weight))
        if self.weights_[2] > _MAX_UNIFORM:
            self.weights_ = np.array([0.0, 1 - _MAX_UNIFORM, _MAX_UNIFORM])
        return replace(ts.info, loss=self.loss, loss_before=before, loss_after=after)

    def formula(self, xp: Any, z: Array, *inputs: Array) -> Array:
        """Return w0 softmax(z / T) + w1 softmax(z) + w2 / K."""
        scaled, raw, uniform = (self.weights_[i] for i in range(3))
        p = scaled * softmax(xp, z, self.temperature_) + raw * softmax(xp, z)
        return p + uniform / z.shape[-1]


def _terms(z: FloatArray, y: Any, temperature: float) -> FloatArray:
    """Return p p, p q, q q and the true-class probabilities of p = softmax(z / T), q, 1 / K."""
    p, q = softmax(np, z, temperature), softmax(np, z)
    true = np.arange(len(z)), y
    products = [np.einsum("ij,ij->i", a, b) for a, b in ((p, p), (p, q), (q, q))]
    return np.stack([*products, p[true], q[true], np.full(len(z), 1 / z.shape[1])], axis=1)
