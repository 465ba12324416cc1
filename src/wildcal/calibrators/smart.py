"""SMART: a small network reads a temperature off the margin, and minimizes a soft-binned ECE."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

import numpy as np

from wildcal.calibrators.temperature import DEFAULT_BOUNDS, bound_notes, fit_temperature
from wildcal.core.arrays import FloatArray, Labels
from wildcal.core.block import Block
from wildcal.core.calibrator import FitSummary, TemperatureMap
from wildcal.core.checks import check_count
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, INTEGER, REAL, stored

HIDDEN: Final = 16
SMALLEST: Final = 0.1
"""Added to the softplus."""
_SIZES: Final = ((1, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1))
_BINS: Final = 15
_WIDTH: Final = 0.05
_RATE: Final = 0.005
_MOMENTA: Final = (0.9, 0.999)
_LEAST_GAIN: Final = 1e-4
_FARTHEST: Final = 10.0


@final
@dataclass(kw_only=True, eq=False)
class MarginScaling(TemperatureMap):
    """p = softmax(z / T(x)), T = softplus(network(margin)) + 0.1.

    The margin is the largest logit minus the second, standardized on the tuning rows. The network,
    two hidden layers of 16 ReLU units, minimizes SoftECE: Σ_b |Σ_i W_ib (c_i - right_i)| / N, W the
    shares of a row in 15 bins by a Gaussian kernel of width 0.05 around their centers.

    Parameters
    ----------
    epochs
        Steps of Adam on all rows, at most.
    patience
        It stops after so many steps that did not lower the loss by 0.0001. It has converged where
        it stopped so, with no larger loss than that of temperature scaling.
    seed
        Of the weights it starts from.

    Notes
    -----
    Guo, Tao et al., SMART, ICML 2026, with the settings of the public benchmark driver (Adam at
    0.005, 2,000 epochs, patience 200). Equal rows are merged and all rows sorted before the search,
    so that its path does not depend on their order. Margins are cut at ten standard deviations.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0, n_tuning=500, n_ood_tuning=0)
    >>> calibrator = MarginScaling(patience=20).fit(*suite.tuning)
    >>> calibrator.fit_.loss_after < calibrator.fit_.loss_before
    True
    """

    name = "smart"
    title = "temperature from the margin by a soft-binned ECE"
    reference = "Guo et al., ICML 2026"
    stores = "323 numbers"
    shift_invariant = True

    epochs: int = field(default=2000, metadata=stored(INTEGER))
    patience: int = field(default=200, metadata=stored(INTEGER))
    seed: int = field(default=0, metadata=stored(INTEGER))
    mean_: float = field(init=False, repr=False, metadata=stored(REAL))
    std_: float = field(init=False, repr=False, metadata=stored(REAL))
    weights_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_options(self) -> None:
        check_count("epochs", self.epochs)
        check_count("patience", self.patience)
        check_count("seed", self.seed, least=0)

    def _check_fitted(self) -> None:
        if self.weights_.shape != (_n_weights(),):
            raise ValueError(f"weights_ must have shape ({_n_weights()},).")
        if not self.std_ > 0:
            raise ValueError("std_ must be positive.")

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, given = rows.tuning()
        weight = np.ones(len(y)) if given is None else given
        below, right, share = _merged(logits.astype(np.float64), y, weight / weight.sum())
        margin = -below[:, 1]
        self.mean_ = float(share @ margin)
        spread = float(np.sqrt(share @ np.square(margin - self.mean_)))
        self.std_ = spread if spread > 1e-9 * max(1.0, abs(self.mean_)) else 1.0
        x = self._input(margin)
        ts = fit_temperature(logits, y, weight=given)

        def objective(weights: FloatArray) -> tuple[float, FloatArray]:
            passed = forward(weights, x)
            confidence, by_temperature = _confidence(below, passed.temperature)
            loss, slope = soft_ece(confidence, right, share)
            return loss, backward(weights, x, passed, slope * by_temperature)

        found = _adam(objective, _start(self.seed), self.epochs, self.patience)
        self.weights_, losses = found.weights, found.losses
        # One temperature is among what the network can say. Where it ends above that, it got stuck:
        # rows whose confidence is 1 at any temperature it tries have no slope to go by.
        one = _confidence(below, np.full(len(below), ts.temperature))[0]
        stuck = min(losses) > soft_ece(one, right, share)[0] + _LEAST_GAIN
        return FitSummary(
            loss="soft ece",
            loss_before=losses[0],
            loss_after=min(losses),
            iterations=len(losses),
            converged=found.settled and not stuck,
            notes=bound_notes(ts),
        )

    def _input(self, margin: FloatArray) -> FloatArray:
        return np.asarray(np.clip((margin - self.mean_) / self.std_, -_FARTHEST, _FARTHEST))

    def _temperature(self, block: Block) -> FloatArray:
        found = forward(self.weights_, self._input(block.margin())).temperature
        return np.asarray(np.minimum(found, DEFAULT_BOUNDS[1]))

    def _describe(self) -> list[str]:
        typical = forward(self.weights_, np.zeros(1)).temperature[0]
        return [
            f"A network of {_n_weights()} weights reads the margin and divides all logits by a"
            f" temperature, {typical:.4g} for the average margin."
        ]


class Passed(NamedTuple):
    """What a pass through the network left behind."""

    first: FloatArray
    second: FloatArray
    output: FloatArray
    temperature: FloatArray


def forward(weights: FloatArray, x: FloatArray) -> Passed:
    """Return both hidden layers, shape (16, n), the output and softplus(output) + 0.1."""
    (w1, b1), (w2, b2), (w3, b3) = _layers(weights)
    first = np.maximum(w1.T * x + b1[:, None], 0.0)
    second = np.repeat(b2[:, None], len(x), axis=1)
    for row, values in zip(w2, first, strict=True):  # a product would round by the number of rows
        second += row[:, None] * values
    second = np.maximum(second, 0.0)
    output = np.full(len(x), b3[0])
    for weight, values in zip(w3[:, 0], second, strict=True):
        output += weight * values
    return Passed(first, second, output, np.logaddexp(0.0, output) + SMALLEST)


def backward(
    weights: FloatArray, x: FloatArray, passed: Passed, by_temperature: FloatArray
) -> FloatArray:
    """Return the gradient by the weights, given that by the temperature of each row."""
    _, (w2, _), (w3, _) = _layers(weights)
    out = by_temperature * 0.5 * (1 + np.tanh(passed.output / 2))
    to_second = w3 * out * (passed.second > 0)
    to_first = (w2 @ to_second) * (passed.first > 0)
    parts = (to_first @ x, to_first.sum(axis=1), passed.first @ to_second.T, to_second.sum(axis=1),
             passed.second @ out, out.sum(keepdims=True))  # fmt: skip
    return np.concatenate([part.ravel() for part in parts])


def soft_ece(
    confidence: FloatArray, right: FloatArray, share: FloatArray
) -> tuple[float, FloatArray]:
    """Return Σ_b |Σ_i s_i W_ib (c_i - right_i)| and its derivative by each confidence.

    >>> round(soft_ece(np.array([0.8, 0.8]), np.array([1.0, 0.0]), np.array([0.5, 0.5]))[0], 6)
    0.3
    """
    centers = (np.arange(_BINS) + 0.5) / _BINS
    off = confidence[:, None] - centers
    log = -0.5 * (off / _WIDTH) ** 2
    w = np.exp(log - log.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    gap = confidence - right
    sums = (share * gap) @ w
    sign = np.sign(sums)
    pull = -off / _WIDTH**2
    pull -= (w * pull).sum(axis=1, keepdims=True)
    slope = share * ((w * (1 + gap[:, None] * pull)) @ sign)
    return float(np.abs(sums).sum()), np.asarray(slope)


def _confidence(below: FloatArray, temperature: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return max softmax(z / T) of each row and its derivative by T; `below` is z - max z."""
    scaled = below / temperature[:, None]
    e = np.exp(scaled)
    confidence = 1 / e.sum(axis=1)
    return confidence, confidence**2 * (e * scaled).sum(axis=1) / temperature


class Searched(NamedTuple):
    """Where a search by Adam ended."""

    weights: FloatArray
    """The best ones it met."""
    losses: list[float]
    """Of every step."""
    settled: bool
    """Whether the loss had stopped falling."""


def _adam(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    epochs: int,
    patience: int,
) -> Searched:
    """Return where Adam ends."""
    at, best = start.copy(), start.copy()
    mean, square = np.zeros_like(at), np.zeros_like(at)
    losses: list[float] = []
    lowest, waited = np.inf, 0
    for step in range(1, epochs + 1):
        loss, gradient = objective(at)
        losses.append(loss)
        if loss < min(losses[:-1], default=np.inf):
            best = at.copy()
        waited = 0 if loss < lowest - _LEAST_GAIN else waited + 1
        lowest = min(lowest, loss) if waited == 0 else lowest
        if waited >= patience:
            break
        mean = _MOMENTA[0] * mean + (1 - _MOMENTA[0]) * gradient
        square = _MOMENTA[1] * square + (1 - _MOMENTA[1]) * gradient**2
        unbiased = mean / (1 - _MOMENTA[0] ** step)
        scale = np.sqrt(square / (1 - _MOMENTA[1] ** step)) + 1e-8
        at = at - _RATE * unbiased / scale
    return Searched(best, losses, waited >= patience)


def _merged(
    logits: FloatArray, y: Labels, share: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sorted z - max z, whether it is right, and the share of each distinct row, sorted."""
    right = logits.argmax(axis=1) == y
    below = np.sort(np.maximum(logits - logits.max(axis=1, keepdims=True), -1e6), axis=1)[:, ::-1]
    rows, which = np.unique(np.column_stack([below, right]), axis=0, return_inverse=True)
    return rows[:, :-1], rows[:, -1], np.asarray(np.bincount(which.ravel(), share), np.float64)


def _start(seed: int) -> FloatArray:
    """Return weights and offsets drawn evenly within ±1/√inputs, as torch does."""
    rng = np.random.default_rng(seed)
    parts = []
    for k, m in _SIZES:
        parts += [rng.uniform(-1, 1, k * m) / np.sqrt(k), rng.uniform(-1, 1, m) / np.sqrt(k)]
    return np.concatenate(parts)


def _n_weights() -> int:
    return sum(k * m + m for k, m in _SIZES)


def _layers(weights: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Return weights of shape (inputs, units) and offsets of each layer."""
    layers, start = [], 0
    for k, m in _SIZES:
        w, b = np.split(weights[start : start + k * m + m], [k * m])
        layers.append((w.reshape(k, m), b))
        start += k * m + m
    return layers
