"""How much more likely a row is in the window than among the clean rows, by logistic regression."""

from typing import Final, NamedTuple

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Logits

_FARTHEST: Final = 10.0
_STEPS: Final = 50
# Log odds beyond are cut: exp(30) is 10^13.
_LARGEST_ODDS: Final = 30.0
# A class ruled out by -inf is taken to be this much below the row's least other logit.
_BELOW: Final = 1e4


class Source(NamedTuple):
    """The labeled rows that are weighted."""

    logits: Logits
    y: Labels
    weight: FloatArray


def finite(logits: Logits) -> Logits:
    """Return logits in which a class that was ruled out is only very unlikely."""
    out = np.isneginf(logits)
    if not out.any():
        return logits
    least = np.where(out, np.inf, logits).min(axis=1, keepdims=True)
    return np.asarray(np.where(out, least - _BELOW, logits)).astype(logits.dtype)


def features(logits: Logits) -> FloatArray:
    """Return what the domain classifier reads: the logits, each row less its mean."""
    z = finite(logits).astype(np.float64)
    return np.asarray(z - z.mean(axis=1, keepdims=True))


def density_ratio(source: Source, window: Logits) -> FloatArray:
    """Return w = P(window | z) / P(clean | z) of each clean row.

    A logistic regression with penalty |v|² / 2 tells standardized logits of the two sets apart,
    each of which counts as many rows as the larger one has.
    """
    x, t = features(source.logits), features(window)
    share = source.weight / source.weight.sum()
    mean = share @ x
    spread = np.sqrt(share @ np.square(x - mean))
    std = np.where(spread > 1e-9 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
    both = np.clip((np.concatenate([x, t]) - mean) / std, -_FARTHEST, _FARTHEST)
    size = max(float(source.weight.sum()), len(t))
    weight = np.concatenate([share * size, np.full(len(t), size / len(t))])
    is_window = np.repeat([0.0, 1.0], [len(x), len(t)])
    odds = both[: len(x)] @ (found := fit_logistic(both, is_window, weight))[1:] + found[0]
    return np.asarray(np.exp(np.clip(odds, -_LARGEST_ODDS, _LARGEST_ODDS)))


def fit_logistic(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Return intercept and slopes that minimize Σ weight x log loss + |slopes|² / 2, by Newton."""
    design = np.column_stack([np.ones(len(x)), x])
    ridge = np.ones(design.shape[1])
    ridge[0] = 0.0
    here = np.zeros(design.shape[1])
    loss = _loss(design, y, weight, ridge, here)
    for _ in range(_STEPS):
        p = _sigmoid(design @ here)
        gradient = design.T @ (weight * (p - y)) + ridge * here
        curved = weight * p * (1 - p)
        hessian = (design * curved[:, None]).T @ design + np.diag(ridge + 1e-12)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while (there := _loss(design, y, weight, ridge, here - size * step)) > loss and size > 1e-8:
            size /= 2
        if size <= 1e-8:
            break
        here, moved = here - size * step, float(np.abs(size * step).max())
        loss = there
        if moved < 1e-10:
            break
    return here


def _loss(
    design: FloatArray, y: FloatArray, weight: FloatArray, ridge: FloatArray, at: FloatArray
) -> float:
    odds = design @ at
    return float(weight @ (np.logaddexp(0.0, odds) - y * odds) + ridge @ at**2 / 2)


def _sigmoid(odds: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)))
