"""Fits and metrics on adversarial logits: promises, slow references, the optimum."""

import json
from itertools import pairwise

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from benchmarks.campaign.promises import check_promises
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from wildcal import make_calibrator, metrics
from wildcal.calibrators import CALIBRATORS
from wildcal.io.artifact import describe_file, rebuild

Rng = np.random.Generator


def adversarial(rng: Rng) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Return rows with ties, ruled out classes, offsets, outliers, any scale, and labels."""
    n, k = int(rng.integers(2, 80)), int(rng.integers(2, 8))
    logits = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-6, 7)
    y = (logits / max(1e-12, np.abs(logits).max()) * 3 + rng.gumbel(size=(n, k))).argmax(axis=1)
    match int(rng.integers(6)):
        case 0:
            logits = logits.round()
        case 1:
            logits[rng.random((n, k)) < 0.1] = -np.inf
            logits[np.arange(n), y] = rng.normal(size=n)
        case 2:
            logits += rng.choice([1e3, -1e6, 1e9])
        case 3:
            logits[int(rng.integers(n))] *= 1e9
        case 4:
            y = np.full(n, y[0])
        case 5:
            logits[:] = logits[0]
    return logits.astype(rng.choice([np.float32, np.float64])), y


def _fits_keep_promises(rng: Rng) -> None:
    logits, y = adversarial(rng)
    names = list(CALIBRATORS)
    name = names[int(rng.integers(len(names)))]
    weight = rng.choice([0.0, 1e-12, 1.0, 1e12], size=len(y)) if rng.integers(4) == 0 else None
    check_promises(make_calibrator(name).fit(logits, y, sample_weight=weight))


def _temperature_is_the_optimum(rng: Rng) -> None:
    logits, y = adversarial(rng)
    logits = logits.astype(np.float64)
    if np.isneginf(logits).any():
        return
    logits -= logits.max(axis=1, keepdims=True)  # the reference divides before it subtracts
    low, high = 0.01, 100.0
    found = make_calibrator("ts").fit(logits, y)
    if any("rule out" in note for note in found.fit_.notes):
        return  # such rows do not count by their loss

    def loss(log_t: float) -> float:
        return float(-log_softmax(logits / np.exp(log_t), axis=1)[np.arange(len(y)), y].mean())

    at = loss(float(np.log(found.temperature_)))
    grid = np.linspace(np.log(low), np.log(high), 60)
    start = int(np.argmin([loss(g) for g in grid]))
    around = (grid[max(0, start - 1)], grid[min(59, start + 1)])
    best = min(
        float(minimize_scalar(loss, bounds=around, method="bounded").fun), *map(loss, around)
    )
    if at > best + 1e-7 * (1 + abs(best)):
        raise FindingError(f"T = {found.temperature_} has loss {at!r}, and {best!r} is there")


def _huge_fits_are_files_or_errors(rng: Rng) -> None:
    """Logits up to the end of their type and weights of any size: what is fitted can be saved."""
    name = list(CALIBRATORS)[int(rng.integers(len(CALIBRATORS)))]
    dtype = (np.float32, np.float64)[int(rng.integers(2))]
    end = float(np.finfo(dtype).max)
    n, k = int(rng.integers(20, 80)), int(rng.integers(2, 6))
    plain = 3 * rng.normal(size=(n, k))
    y = (plain + rng.gumbel(size=(n, k))).argmax(axis=1)
    # Anywhere, where squares overflow, and where sums do.
    last = np.log10(end)
    exponent = (rng.uniform(5, last), last / 2 + rng.uniform(-1, 1), last - rng.uniform(0, 2))
    size = np.full(n, 10.0 ** exponent[int(rng.integers(3))])
    if rng.integers(2):  # only some of the rows
        size[rng.random(n) < 0.8] = 1.0
    size = size[:, None]
    logits = (np.clip(plain, -end / size, end / size) * size).clip(-end, end).astype(dtype)
    weight = rng.choice([0.0, 1e-12, 1.0, 1e12], n) if rng.integers(2) else None
    calibrator = make_calibrator(name).fit(logits, y, sample_weight=weight)
    proba = calibrator.predict_proba(logits)
    if not (np.isfinite(proba).all() and np.allclose(proba.sum(axis=1), 1, atol=1e-4)):
        raise FindingError(f"{name}: probabilities of its own rows are broken")
    try:
        again = rebuild(json.loads(json.dumps(describe_file(calibrator), allow_nan=False)))
    except ValueError as error:
        raise FindingError(f"{name} was fitted and cannot be saved: {error}") from error
    if not np.array_equal(again.predict_proba(logits), proba):
        raise FindingError(f"{name}: another calibrator after saving")


def _slow_ece(proba: NDArray[np.floating], y: NDArray[np.int64], n_bins: int = 15) -> float:
    total = 0.0
    confidence, right = proba.max(axis=1).astype(np.float64), proba.argmax(axis=1) == y
    edges = np.linspace(0, 1, n_bins + 1)
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            total += abs(float(confidence[inside].sum()) - float(right[inside].sum()))
    return total / len(y)


def _metrics_are_their_formulas(rng: Rng) -> None:
    n, k = int(rng.integers(1, 300)), int(rng.integers(2, 7))
    proba = rng.dirichlet(np.full(k, 10.0 ** rng.integers(-2, 2)), size=n)
    proba = np.maximum(proba, 1e-15)  # the metric's own floor is below
    proba /= proba.sum(axis=1, keepdims=True)
    y = rng.integers(0, k, n)
    true = proba[np.arange(n), y]
    wanted = {
        "ece": _slow_ece(proba, y),
        "nll": float(-np.log(true).mean()),
        "brier": float(((proba - np.eye(k)[y]) ** 2).sum(axis=1).mean()),
        "accuracy": float((proba.argmax(axis=1) == y).mean()),
    }
    for name, value in wanted.items():
        got = float(getattr(metrics, name)(y, proba))
        if not np.isclose(got, value, rtol=1e-6, atol=1e-9):
            raise FindingError(f"{name} is {got!r}, by its formula {value!r}")


ATTACKS = [
    Attack("numbers/fits", _fits_keep_promises, (ValueError,)),
    Attack("numbers/huge-fits", _huge_fits_are_files_or_errors, (ValueError,)),
    Attack("numbers/ts-optimum", _temperature_is_the_optimum, (ValueError,)),
    Attack("numbers/metrics", _metrics_are_their_formulas),
]
