"""Bootstrap intervals of metrics, and paired differences on the same samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_number
from wildcal.metrics._scores import MAX_BINS, Scores, check_scores
from wildcal.metrics.calibration_error import compute_noise_floor, noise_limit
from wildcal.metrics.registry import DEBIASED, METRICS, WITH_FLOOR, Metric, get_metric

DEFAULT_BOOTSTRAP: Final = 200
# Above this number of samples no intervals are computed unless asked for.
MAX_SAMPLES: Final = 500_000
# Weights in memory at the same time.
_BLOCK_ENTRIES: Final = 1 << 22


@dataclass(frozen=True)
class Options:
    """Checked options of metrics and their intervals."""

    n_bins: int = 15
    n_bootstrap: int | None = None
    """Replicates of intervals, 0 for none. None: 200, or none above 500,000 samples."""
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("n_bins", self.n_bins, 1, MAX_BINS, whole=True)
        check_number("level", self.level, 0.01, 0.9999)
        if self.n_bootstrap is not None:
            check_number("n_bootstrap", self.n_bootstrap, 0, 1_000_000, whole=True)

    def for_samples(self, n: int) -> "Options":
        """Return the options with the number of replicates for n samples."""
        if self.n_bootstrap is not None:
            return self
        return replace(self, n_bootstrap=DEFAULT_BOOTSTRAP if n <= MAX_SAMPLES else 0)


@dataclass(frozen=True)
class Estimate:
    """A number with its interval and, for some errors, its noise floor. Converts by `float()`.

    Examples
    --------
    >>> float(Estimate(0.03, low=0.02, high=0.04, floor=0.01))
    0.03
    """

    value: float
    low: float | None = None
    """Lower end of the interval, None without bootstrap."""
    high: float | None = None
    floor: float | None = None
    """The value that a perfectly calibrated model is expected to have on these samples."""

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the interval, None without bootstrap."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def excess(self) -> float | None:
        """The value minus the noise floor, None without a floor."""
        return None if self.floor is None else self.value - self.floor

    @property
    def verdict(self) -> Literal["above noise floor", "within noise"] | None:
        """Whether the interval of the error, or its value without one, is above the floor."""
        if self.floor is None:
            return None
        is_above = self.value > self.floor if self.low is None else self.low > 0
        return "above noise floor" if is_above else "within noise"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the floor and the verdict where there is a floor."""
        found: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        if self.floor is not None:
            found |= {"noise_floor": self.floor, "verdict": self.verdict}
        return found


@dataclass(frozen=True)
class Difference(Estimate):
    """A difference of a metric between two models on the same samples, with a paired interval."""

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0. False without an interval."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**super().to_dict(), "is_significant": self.is_significant}


def draw_weights(scores: Scores, n_bootstrap: int, seed: int = 0) -> Iterator[NDArray[np.float32]]:
    """Yield blocks (n, b) of bootstrap weights, the number of draws of each sample.

    The same seed and number of samples give the same draws, so that models are compared on the
    same replicates. In-distribution and OOD samples are drawn separately.
    """
    if (scores.weight == 1).all() and len(scores) * n_bootstrap <= _BLOCK_ENTRIES:
        yield _unweighted(scores.is_ood.tobytes(), n_bootstrap, seed)
        return
    rng = np.random.default_rng(seed)
    size = max(1, _BLOCK_ENTRIES // len(scores))
    for start in range(0, n_bootstrap, size):
        yield _draw(rng, scores.is_ood, scores.weight, min(size, n_bootstrap - start))


@lru_cache(maxsize=4)
def _unweighted(is_ood: bytes, n_bootstrap: int, seed: int) -> NDArray[np.float32]:
    """Return the draws of small data, which many evaluations of a benchmark share."""
    kind = np.frombuffer(is_ood, np.bool_)
    return _draw(np.random.default_rng(seed), kind, np.ones(len(kind)), n_bootstrap)


def _draw(rng: Any, is_ood: BoolArray, weight: FloatArray, n_bootstrap: int) -> NDArray[np.float32]:
    """Return draws of shape (n, n_bootstrap): counts, so float32 is exact."""
    block = np.zeros((n_bootstrap, len(weight)), dtype=np.float32)
    for chosen in (np.flatnonzero(~is_ood), np.flatnonzero(is_ood)):
        n, w = len(chosen), weight[chosen]
        if not w.any():
            continue
        p = None if (w == 1).all() else w / w.sum()
        for row in block:
            row[chosen] = np.bincount(rng.choice(n, max(1, round(w.sum())), p=p), minlength=n)
    return np.ascontiguousarray(block.T)


def replicate(
    metrics: Sequence[Metric],
    scores: Scores,
    options: Options,
    progress: Callable[[int], None] | None = None,
) -> dict[str, FloatArray]:
    """Return metrics of bootstrap replicates by name, each of shape (n_bootstrap,).

    `progress` is called with the number of replicates of each block.
    """
    if not (metrics and options.n_bootstrap):
        return {}
    parts: dict[str, list[FloatArray]] = {metric.name: [] for metric in metrics}
    for weights in draw_weights(scores, options.n_bootstrap, options.seed):
        for metric in metrics:
            parts[metric.name].append(metric.of(scores, weights, options.n_bins))
        if progress is not None:
            progress(weights.shape[1])
    return {name: np.concatenate(values) for name, values in parts.items()}


def interval(
    metric: Metric | None, value: float, replicates: FloatArray | None, level: float = 0.95
) -> tuple[float, float] | tuple[None, None]:
    """Return the ends of the bootstrap interval of a metric, or of a difference (None).

    Percentiles of the replicates. Calibration errors are biased upward on finite samples, and
    resampling adds the same bias again: their percentiles are reflected at the value, which
    removes it, and limited to 0. Errors without a noise floor are reflected as squares, because
    noise adds to the square of a gap; debiased ones, which have it in replicates only, are
    reflected at the mean of the replicates. The interval is extended to the value itself.
    """
    used = np.empty(0) if replicates is None else replicates[np.isfinite(replicates)]
    if len(used) < 2 or np.isnan(value):
        return None, None
    kind = "share" if metric is None else metric.kind
    if metric is not None and kind == "error" and metric.name not in (*WITH_FLOOR, "excess_ece"):
        center = used if metric.name in DEBIASED else value
        squares = value**2 + np.mean(np.square(center)) - used**2
        kind, used = "share", np.sqrt(np.maximum(squares, 0.0))
    low, high = np.quantile(used, [(1 - level) / 2, (1 + level) / 2]).tolist()
    if kind == "error":
        low, high = max(2 * value - high, 0.0), 2 * value - low
    return min(low, value), max(high, value)


def estimate(
    metric: Metric, scores: Scores, options: Options, replicates: FloatArray | None = None
) -> Estimate:
    """Return a metric of all samples with the interval from its replicates.

    The interval of an error with a noise floor is that of the error without its upward bias. It
    reaches down to 0 if a calibrated model has such a value by chance. It is also the interval of
    `excess_ece`.
    """
    n_bins, level = options.n_bins, options.level
    known = scores.in_distribution
    if metric.name == "excess_ece":
        floor = float(compute_noise_floor(known, known.weight, n_bins=n_bins))
        raw = None if replicates is None else replicates + floor
        error = estimate(METRICS["ece"], known, options, raw)
        return _around(error.value - floor, error.low, error.high)
    value = float(metric.of(scores, scores.weight, n_bins))
    low, high = interval(metric, value, replicates, level)
    if metric.name not in WITH_FLOOR:
        return Estimate(value, low, high)
    event = known.positive if metric.needs == "binary" else known
    floor = float(compute_noise_floor(event, event.weight, n_bins=n_bins))
    # The limit is at most three times the floor.
    is_near = low is not None and value <= 3 * floor
    if is_near and value <= noise_limit(event, n_bins=n_bins, level=level):
        low = 0.0
    return Estimate(value, low, high, floor)


def _around(value: float, low: float | None, high: float | None) -> Estimate:
    """Return an estimate whose interval contains its value."""
    if low is None or high is None:
        return Estimate(value)
    return Estimate(value, min(low, value), max(high, value))


def bootstrap_ci(
    metric: str,
    y: Any,
    proba: Any,
    *,
    n_bins: int = 15,
    n_bootstrap: int = DEFAULT_BOOTSTRAP,
    level: float = 0.95,
    sample_weight: Any = None,
    seed: int = 0,
) -> Estimate:
    """Return a metric with its bootstrap interval.

    Parameters
    ----------
    metric
        A name of `wildcal.metrics.METRICS`.
    y, proba, sample_weight
        As in `ece`.
    n_bins
        Number of bins of binned errors.
    n_bootstrap, level, seed
        Number of replicates, level of the interval and random seed.

    Examples
    --------
    >>> result = bootstrap_ci("accuracy", np.arange(100) < 80, np.full(100, 0.8))
    >>> result.value, round(result.low, 1), round(result.high, 1)
    (0.8, 0.7, 0.9)
    """
    options = Options(n_bins, n_bootstrap, level, seed)
    chosen, scores = _checked(metric, y, proba, sample_weight, options)
    return estimate(chosen, scores, options, replicate([chosen], scores, options)[chosen.name])


def paired_difference(
    metric: str,
    a: tuple[Any, Any],
    b: tuple[Any, Any],
    *,
    n_bins: int = 15,
    n_bootstrap: int = DEFAULT_BOOTSTRAP,
    level: float = 0.95,
    sample_weight: Any = None,
    seed: int = 0,
) -> Difference:
    """Return metric(a) - metric(b) with a paired interval: both on the same replicates.

    `a` and `b` are pairs (y, proba) or (correct, confidence) of the same samples in the same
    order. Other parameters as in `bootstrap_ci`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 2000)
    >>> correct = rng.random(2000) < confidence
    >>> result = paired_difference("ece", (correct, confidence), (correct, confidence**2))
    >>> result.high < 0
    True
    """
    options = Options(n_bins, n_bootstrap, level, seed)
    chosen, first = _checked(metric, *a, sample_weight, options)
    second = _checked(metric, *b, sample_weight, options)[1]
    if len(first) != len(second) or (first.is_ood != second.is_ood).any():
        raise InputError(
            f"b must have the samples of a in the same order, got {len(second)} for {len(first)}.",
            "b",
        )
    values = [float(chosen.of(s, s.weight, n_bins)) for s in (first, second)]
    drawn = [replicate([chosen], s, options)[chosen.name] for s in (first, second)]
    return difference(values[0] - values[1], drawn[0] - drawn[1], level)


def difference(value: float, replicates: FloatArray | None, level: float = 0.95) -> Difference:
    """Return a difference with the interval of its paired replicates, reflected at the value."""
    reflected = None if replicates is None else 2 * value - replicates
    return Difference(value, *interval(None, value, reflected, level))


def _checked(
    metric: str, y: Any, proba: Any, sample_weight: Any, options: Options
) -> tuple[Metric, Scores]:
    check_number("n_bootstrap", options.n_bootstrap, 2, 1_000_000, whole=True)
    chosen = get_metric(metric)
    scores = check_scores(y, proba, sample_weight)
    if not chosen.applies_to(scores):
        raise InputError(f"metric {metric!r} is not defined for these samples.", "metric")
    return chosen, scores
