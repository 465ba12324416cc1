"""Fits end at the optimum of what they say they minimize, by other people's solvers."""

from collections.abc import Callable

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax, softmax

from wildcal import make_calibrator

Rng = np.random.Generator
Array = NDArray[np.float64]
_LARGEST = 100.0
"""Of the two numbers of hts: rows that a step in T tells apart would have it without end."""


def _problem(rng: Rng) -> tuple[Array, NDArray[np.int64]]:
    n, k = int(rng.integers(40, 150)), int(rng.integers(2, 5))
    logits = rng.normal(size=(n, k)) * 10 ** rng.uniform(-0.5, 0.7)
    y = (logits / 10 ** rng.uniform(-0.3, 0.5) + rng.gumbel(size=(n, k))).argmax(axis=1)
    return logits, y


def _nll(scores: Array, y: NDArray[np.int64]) -> float:
    return float(-log_softmax(scores, axis=1)[np.arange(len(y)), y].mean())


def _compare(
    name: str,
    loss: Callable[[Array], float],
    found: Array,
    starts: list[Array],
    flat: bool = True,
    largest: float = np.inf,
) -> None:
    """Raise if the gradient at a solution is not flat, or a search in its box finds a better."""
    at = loss(found)
    slope = np.abs(approx_fprime(found, loss, 1e-6)).max()
    if flat and slope > 1e-4 * (1 + abs(at)):
        raise FindingError(f"{name} ends where the loss {at:.6g} has a slope of {slope:.3g}")
    how = {"method": "BFGS"}
    if np.isfinite(largest):
        how = {"method": "L-BFGS-B", "bounds": [(-largest, largest)] * len(found)}
    best = min(minimize(loss, start, **how).fun for start in starts)
    if best < at - 1e-7 * (1 + abs(at)):
        raise FindingError(f"{name} ends at a loss of {at!r}, and {best!r} is there")


def _vector(rng: Rng) -> None:
    logits, y = _problem(rng)
    n, k = logits.shape
    scale = 1 / make_calibrator("ts").fit(logits, y).temperature_
    fitted = make_calibrator("vector").fit(logits, y)

    def loss(theta: Array) -> float:
        v, b = theta[:k], theta[k:]
        pull = 0.1 * k / n * (((v - scale) ** 2).sum() + (b**2).sum())
        return _nll(v * logits + b, y) + pull

    starts = [rng.normal(size=2 * k) for _ in range(3)]
    _compare("vector", loss, np.concatenate([fitted.scale_, fitted.intercept_]), starts)


def _matrix(rng: Rng) -> None:
    logits, y = _problem(rng)
    n, k = logits.shape
    scale = 1 / make_calibrator("ts").fit(logits, y).temperature_
    fitted = make_calibrator("matrix").fit(logits, y)
    outside = 1 - np.eye(k)

    def loss(theta: Array) -> float:
        w, b = theta[: k * k].reshape(k, k), theta[k * k :]
        pull = k * (k - 1) / n * (outside * w**2).sum() + k / n * (b**2).sum()
        pull += 0.1 * k / n * ((np.diag(w) - scale) ** 2).sum()
        return _nll(logits @ w.T + b, y) + pull

    starts = [rng.normal(size=k * (k + 1)) for _ in range(2)]
    _compare("matrix", loss, np.concatenate([fitted.matrix_.ravel(), fitted.intercept_]), starts)


def _ensemble(rng: Rng) -> None:
    """Search the simplex that the weights lie on: in its corners a slope says nothing."""
    logits, y = _problem(rng)
    n, k = logits.shape
    fitted = make_calibrator("ets").fit(logits, y)
    scaled = softmax(logits / fitted.temperature_, axis=1)
    parts = np.stack([scaled, softmax(logits, axis=1), np.full((n, k), 1 / k)])
    target = np.eye(k)[y]

    def loss(weights: Array) -> float:
        return float(((np.tensordot(weights, parts, 1) - target) ** 2).sum(axis=1).mean())

    at = loss(np.array(fitted.weights_))
    steps = np.linspace(0, 1, 41)
    best = min(loss(np.array([a, b, 1 - a - b])) for a in steps for b in steps if a + b <= 1)
    if best < at - 1e-9 * (1 + at):
        raise FindingError(f"ets ends at {at!r}, and {best!r} is on a grid of weights")


def _entropy(rng: Rng) -> None:
    """Not convex: the slope at the end is asked, and that no start near it leads lower."""
    logits, y = _problem(rng)
    k = logits.shape[1]
    fitted = make_calibrator("hts").fit(logits, y)
    p = softmax(logits, axis=1)
    entropy = -(p * log_softmax(logits, axis=1)).sum(axis=1)
    h = np.log(np.maximum(entropy, 1e-12) / np.log(k))

    def loss(theta: Array) -> float:
        t = np.clip(np.logaddexp(0, theta[0] * h + theta[1]), 0.01, 100)
        return _nll(logits / t[:, None], y)

    found = np.array([fitted.weight_, fitted.bias_])
    inside = np.logaddexp(0, found[0] * h + found[1])
    free = bool((inside > 0.0101).all() and (inside < 99).all() and fitted.fit_.converged)
    free &= bool((np.abs(found) < _LARGEST).all())
    starts = [found + 0.05 * rng.normal(size=2) for _ in range(3)]
    _compare("hts", loss, found, starts, flat=free, largest=_LARGEST)


ATTACKS = [
    Attack("numbers/vector-optimum", _vector, batch=2),
    Attack("numbers/matrix-optimum", _matrix, batch=1, seconds=60),
    Attack("numbers/ets-optimum", _ensemble, batch=2),
    Attack("numbers/hts-optimum", _entropy, batch=2),
]
