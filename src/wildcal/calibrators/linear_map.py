"""softmax(W x + b): the maps of vector, matrix, Dirichlet and structured scaling, once fitted."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from wildcal.core.arrays import FloatArray, Labels, Logits, Proba, Source, working_dtype
from wildcal.core.block import Block
from wildcal.core.bound import Bound, bound_matrix
from wildcal.core.calibrator import Calibrator
from wildcal.core.columns import total
from wildcal.core.one_thread import one_thread

Features: TypeAlias = Callable[[Logits], Proba]
"""x of some rows of logits, shape (n, K), finite, in the precision to compute in."""

# Logits beyond this are so certain that it makes no difference; their products must not overflow.
LARGEST_LOGIT = 1e30
LOG_TINY = float(np.log(np.finfo(np.float32).tiny))

# Rows that tell where logits lie, and how many standard deviations from zero are far.
_GLANCE, _FAR = 1000, 10.0

# Times any logit this stays finite in float32 (logits beyond 1e30 are cut there).
_LARGEST_COEFFICIENT = 1e6


def diagonal_scores(theta: Proba, x: Proba) -> Proba:
    """Return v * x + b."""
    slope, intercept = theta.astype(x.dtype, copy=False)
    scores = x * slope
    scores += intercept
    return np.asarray(scores)


def matrix_scores(theta: Proba, x: Proba) -> Proba:
    """Return W x + b, with W transposed and b below it in theta."""
    weights = theta.astype(x.dtype, copy=False)
    with one_thread():
        scores = x @ weights[:-1]
    scores += weights[-1]
    return np.asarray(scores)


def bound_linear(
    logits: Source, features: Features, scores: Callable[[Proba, Proba], Proba], theta: FloatArray
) -> Bound:
    """Return softmax(scores(theta, features(z))) of rows; a class at -inf keeps probability zero.

    The work is done in float64: of K products of logits of 1e4, float32 leaves three digits.
    """

    def fill(block: Block, out: Proba) -> None:
        s = scores(theta, features(block.original.astype(np.float64)))
        ruled_out = np.isneginf(block.original)
        if ruled_out.any():
            s[ruled_out] = -np.inf
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        np.divide(s, s.sum(axis=1, keepdims=True), out=out, casting="same_kind")

    return bound_matrix(logits, fill)


def raw_logits(rows: Logits) -> Proba:
    """Return the logits themselves; -inf, which no weight can work with, as the row's lowest."""
    x = np.clip(rows.astype(working_dtype(rows.dtype)), -LARGEST_LOGIT, LARGEST_LOGIT)
    ruled_out = np.isneginf(rows)
    if ruled_out.any():
        lowest = np.where(ruled_out, np.inf, x).min(axis=1, keepdims=True)
        np.copyto(x, lowest, where=ruled_out)
    return np.asarray(x)


def origin_of(logits: Source) -> float:
    """Return what most logits lie near, where that is far beyond how they vary; otherwise 0.

    A fit may work with what is left; which number it is matters for rounding alone.
    """
    some = raw_logits(logits[:_GLANCE]).astype(np.float64)
    mean = float(some.mean())
    return float(np.float32(mean)) if abs(mean) > _FAR * float(some.std()) else 0.0


def log_proba(rows: Logits) -> Proba:
    """Return log softmax(z), floored at the log of float32's smallest number in any precision."""
    x = _shifted(rows)
    x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
    return np.maximum(x, LOG_TINY, out=x)


def log_mixed_proba(rows: Logits, temperature: float, uniform: float) -> Proba:
    """Return log((1 - uniform) softmax(z / T) + uniform / K)."""
    x = _shifted(rows, temperature)
    np.exp(x, out=x)
    x *= (1 - uniform) / x.sum(axis=1, keepdims=True)
    x += uniform / x.shape[1]
    return np.log(x, out=x)


def _shifted(rows: Logits, temperature: float = 1.0) -> Proba:
    """Return (z - max z) / T."""
    with np.errstate(over="ignore"):  # the far end of the largest floats is simply ruled out
        top = rows.max(axis=1, keepdims=True)
        x = np.subtract(rows, top, dtype=working_dtype(rows.dtype))
        return np.asarray(np.divide(x, temperature, out=x))


def stack_matrix(matrix: FloatArray, intercept: FloatArray) -> FloatArray:
    """Return theta of W and b."""
    return np.vstack([matrix.T, intercept])


def total_weight(y: Labels, weight: FloatArray | None) -> float:
    """Return N: the number of rows, or the sum of their weights."""
    return float(len(y)) if weight is None else total(weight)


def check_strength(name: str, value: object) -> None:
    """Raise if the weight of a penalty is negative or not a number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= value < np.inf):  # type: ignore[operator]  # NaN fails too
        raise ValueError(f"{name} must be a number, at least 0 and finite, got {value!r}.")


def check_penalty(reg_lambda: float | None, reg_mu: float | None, ridge: float) -> None:
    """Raise if one of the weights of a `Penalty` cannot be one."""
    for name, value in (("reg_lambda", reg_lambda), ("reg_mu", reg_mu)):
        if value is not None:
            check_strength(name, value)
    check_strength("ridge", ridge)


def check_linear(calibrator: Calibrator, **dimensions: int) -> None:
    """Raise unless fitted arrays have K entries along each of their dimensions."""
    for name, n_dimensions in dimensions.items():
        expected, got = (calibrator.n_classes_,) * n_dimensions, getattr(calibrator, name).shape
        if got != expected:
            raise ValueError(f"{name} must have shape {expected}, got {got}.")
        if np.abs(getattr(calibrator, name)).max() > _LARGEST_COEFFICIENT:
            raise ValueError(f"{name} must lie within ±{_LARGEST_COEFFICIENT:g}.")
