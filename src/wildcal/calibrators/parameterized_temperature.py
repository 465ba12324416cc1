"""Parameterized temperature scaling: a small network computes T (Tomani et al., 2022)."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from scipy.optimize import minimize

from wildcal.calibrators.entropy_temperature import inverse_softplus
from wildcal.calibrators.temperature import DEFAULT_BOUNDS, Bounds, bounds_of, fit_temperature
from wildcal.core.arrays import Array, FloatArray, IntArray, clip, in_blocks, largest, softplus
from wildcal.core.calibrator import FitInfo, TemperatureCalibrator
from wildcal.core.optimize import Solution, softplus_link
from wildcal.core.validation import Samples, check_number

_MAX_ITER: Final = 500
# Standardized inputs are cut at this many standard deviations.
_MAX_INPUT: Final = 10.0
_MAX_LOGIT: Final = 1e30
# Standard deviation of the last layer at the start, where T hardly varies.
_SMALL_OUTPUT: Final = 0.1


def layers(weights: Any, n_inputs: int, n_hidden: int, xp: Any = np) -> list[Any]:
    """Return the three layers from one flat array, each with its biases as last row."""
    k, m = n_inputs, n_hidden
    sizes, columns = ((k + 1) * m, (m + 1) * m, m + 1), (m, m, 1)
    ends = np.cumsum((0, *sizes)).tolist()
    return [
        xp.reshape(weights[start:end], (-1, c))
        for start, end, c in zip(ends, ends[1:], columns, strict=False)
    ]


def forward(xp: Any, x: Array, network: list[Array]) -> tuple[Array, Array, Array]:
    """Return both hidden layers of the inputs x and the output, shape (n_samples, 1)."""
    first, second, third = network
    a = xp.tanh(x @ first[:-1, :] + first[-1, :])
    b = xp.tanh(a @ second[:-1, :] + second[-1, :])
    return a, b, b @ third[:-1, :] + third[-1, :]


def backward(
    x: FloatArray, a: FloatArray, b: FloatArray, network: list[FloatArray], slope: FloatArray
) -> FloatArray:
    """Return derivatives by the flat weights from those by the output, shape (n_samples, 1)."""
    _, second, third = network
    to_b = slope @ third[:-1].T * (1 - b * b)
    to_a = to_b @ second[:-1].T * (1 - a * a)
    pairs = ((x, to_a), (a, to_b), (b, slope))
    return np.concatenate([np.vstack([u.T @ d, d.sum(axis=0)]).ravel() for u, d in pairs])


def squared_error(z: FloatArray, y: IntArray, h: FloatArray) -> FloatArray:
    """Return the squared error of softmax(z / h) and its derivative by h, shape (n_samples, 2)."""
    u = z - z.max(axis=1, keepdims=True)
    p = np.exp(u / h[:, None])
    p /= p.sum(axis=1, keepdims=True)
    error = p.copy()
    error[np.arange(len(z)), y] -= 1
    mean_u = np.einsum("ij,ij->i", p, u)
    p *= error
    by_scale = 2 * (np.einsum("ij,ij->i", p, u) - p.sum(axis=1) * mean_u)
    return np.stack([np.einsum("ij,ij->i", error, error), -by_scale / (h * h)], axis=1)


@dataclass(kw_only=True, eq=False, repr=False)
class ParameterizedTemperatureScaling(TemperatureCalibrator):
    """p = softmax(z / T(z)), T(z) = softplus(network(the k largest logits, sorted)).

    The weights of the network minimize the squared error of the probabilities.

    Parameters
    ----------
    top_k
        Number of logits that the network reads, at most all.
    n_hidden
        Units in each of the two hidden layers.
    ridge
        The squared distance of the weights from their start, which is about temperature scaling,
        enters the loss with the weight ridge / N.
    seed
        Of the weights at the start.
    bounds
        Range of T(z) for every input.

    Attributes
    ----------
    mean_, std_
        Of the inputs of the network, shape (top_k,).
    weights_
        Of the network, one flat array.

    Notes
    -----
    The published code takes 100,000 stochastic steps with ReLU units and T = |output|. Here tanh
    and softplus make the loss smooth, and L-BFGS on all samples needs 20 to 200 iterations. Inputs
    are standardized and cut at ten standard deviations. Without the ridge the minimum is not
    unique, and a weaker one can raise the error on test samples above that of temperature scaling.
    A constant added to all logits of a sample changes T.

    References
    ----------
    Tomani, Cremers and Buettner, Parameterized temperature scaling for boosting the expressive
    power in post-hoc uncertainty calibration, ECCV 2022.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> info = ParameterizedTemperatureScaling().fit(*suite.test).fit_info_
    >>> info.loss_after < info.loss_before
    True
    """

    name = "pts"
    title = "parameterized temperature scaling"
    reference = "Tomani et al., ECCV 2022"

    top_k: int = 10
    n_hidden: int = 5
    ridge: float = 5.0
    seed: int = 0
    bounds: Bounds = DEFAULT_BOUNDS
    mean_: FloatArray = field(init=False)
    std_: FloatArray = field(init=False)
    weights_: FloatArray = field(init=False)

    def _check_options(self) -> None:
        check_number("top_k", self.top_k, 1, 10_000, whole=True)
        check_number("n_hidden", self.n_hidden, 1, 10_000, whole=True)
        check_number("seed", self.seed, 0, whole=True)
        check_number("ridge", self.ridge, 0, 1e12)

    def _fit(self, data: Samples) -> FitInfo:
        k = min(self.top_k, data.n_classes)
        top = in_blocks(lambda z: _top_logits(np, z, k), data.logits)
        self.mean_ = np.average(top, axis=0, weights=data.weight)
        std = np.sqrt(np.average((top - self.mean_) ** 2, axis=0, weights=data.weight))
        varies = std > 1e-6 * np.maximum(1.0, np.abs(self.mean_))
        self.std_ = np.where(varies, std, 1.0)
        x = self._inputs(np, top)
        ts = fit_temperature(data, loss="mse", bounds=self.bounds)
        start = self._start(varies, inverse_softplus(ts.temperature))
        ridge = self.ridge / data.weight.sum()
        share, link = data.weight / data.weight.sum(), softplus_link(*ts.bounds)

        def loss(weights: FloatArray) -> tuple[float, FloatArray]:
            network = layers(weights, k, self.n_hidden)
            a, b, output = forward(np, x, network)
            h, by_output, _ = link(output[:, 0])
            value, by_h = in_blocks(squared_error, data.logits, data.y, h).T
            offset = weights - start
            slope = (share * by_h * by_output)[:, None]
            gradient = backward(x, a, b, network, slope) + 2 * ridge * offset
            return float(share @ value + ridge * offset @ offset), gradient

        options = {"maxiter": _MAX_ITER, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-8}
        result = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
        self.weights_ = np.asarray(result.x)
        # Status 2: the line search ended at the rounding of the loss.
        converged = result.status == 0 or bool(np.abs(result.jac).max() < 1e-4)
        found = Solution(result.x, float(result.fun), int(result.nit), converged)
        return ts.next_info("mse + penalty", ts.info.loss_after, found)

    def _start(self, varies: Any, output: float) -> FloatArray:
        """Return seeded weights with about one output for every input."""
        k, m = len(self.mean_), self.n_hidden
        rng = np.random.default_rng(self.seed)
        first, second = rng.normal(size=(k + 1, m)), rng.normal(size=(m + 1, m))
        third = _SMALL_OUTPUT * rng.normal(size=(m + 1, 1))
        first[:k] *= varies[:, None] / np.sqrt(k)
        second[:m] /= np.sqrt(m)
        first[k], second[m], third[m] = 0, 0, output
        return np.concatenate([layer.ravel() for layer in (first, second, third)])

    def _inputs(self, xp: Any, top: Array) -> Array:
        return clip(xp, (top - self.mean_) / self.std_, -_MAX_INPUT, _MAX_INPUT)

    def _temperatures(self, xp: Any, z: Array, *inputs: Array) -> Array:
        k = self.mean_.shape[0]
        x = self._inputs(xp, _top_logits(xp, z, k))
        output = forward(xp, x, layers(self.weights_, k, self.n_hidden, xp))[2]
        return clip(xp, softplus(xp, output), *bounds_of(self.bounds))


def _top_logits(xp: Any, z: Array, k: int) -> Array:
    return clip(xp, largest(xp, z, k), -_MAX_LOGIT, _MAX_LOGIT)
