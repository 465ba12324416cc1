"""What reports draw besides metrics, kept while a benchmark runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import array_api_compat.numpy as np_compat
import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, in_blocks, logsumexp, softmax
from wildcal.core.calibrator import Calibrator
from wildcal.io.suite import Split
from wildcal.metrics._scores import Scores
from wildcal.metrics.detection import RiskCoverage, compute_risk_coverage
from wildcal.metrics.reliability import Reliability, compute_reliability

_N_TEMPERATURE_GROUPS: Final = 40
_MAX_TEMPERATURE_SAMPLES: Final = 20_000


@dataclass(frozen=True, eq=False)
class RawScores:
    """Samples of one split without calibration."""

    energy: FloatArray
    """Free energy, -logsumexp of the logits."""
    confidence: FloatArray
    correct: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TemperatureCurve:
    """Temperatures of samples by free energy, in groups of equally many."""

    energy: FloatArray
    """Median free energy of each group."""
    low: FloatArray
    """5 % quantile of the temperatures."""
    median: FloatArray
    high: FloatArray
    """95 % quantile."""


@dataclass(eq=False)
class ClassSums:
    """Sums over the samples that were predicted each class, shape (n_classes,)."""

    count: FloatArray
    correct: FloatArray
    confidence: FloatArray


@dataclass(eq=False)
class Diagnostics:
    """One suite with the methods that were fitted on it."""

    n_bins: int
    reliability: dict[str, dict[str, Reliability]] = field(default_factory=dict)
    """By split, then method; without OOD splits. `pool_reliability` adds them."""
    classes: dict[str, dict[str, ClassSums]] = field(default_factory=dict)
    """By condition ("source", "severity 3" or the name of a shift), then method."""
    raw: dict[str, RawScores] = field(default_factory=dict)
    """By split, OOD splits included."""
    risk_coverage: dict[str, dict[str, RiskCoverage]] = field(default_factory=dict)
    """By "source" or "shifted" (all shifted splits), then method."""
    temperatures: dict[str, TemperatureCurve] = field(default_factory=dict)
    """By method, of those with a temperature for each sample."""
    _kept: dict[tuple[str, str], list[tuple[Any, Any]]] = field(default_factory=dict)
    _divided: dict[str, list[tuple[FloatArray, FloatArray]]] = field(default_factory=dict)

    def add_split(self, split: Split) -> None:
        """Take in the logits of a split."""
        z = split.logits
        columns = in_blocks(_energy_and_confidence, z)
        energy, confidence = columns.astype(np.float64).T
        self.raw[split.name] = RawScores(energy, confidence, z.argmax(axis=1) == split.y)

    def add(self, split: Split, method: str, calibrator: Calibrator, scores: Scores) -> None:
        """Take in the predictions of a method on a split."""
        if hasattr(calibrator, "temperatures"):
            z = split.logits[:: max(1, split.n_samples // 200)]
            temperature = np.broadcast_to(
                np.asarray(calibrator.temperatures(z), dtype=np.float64).reshape(-1), (len(z),)
            )
            energy = self.raw[split.name].energy[:: max(1, split.n_samples // 200)]
            self._divided.setdefault(method, []).append((energy, temperature))
        if split.is_ood:
            return
        found = compute_reliability(scores, scores.weight, n_bins=self.n_bins)
        self.reliability.setdefault(split.name, {})[method] = found
        kind = "source" if split.is_source else "shifted"
        self._kept.setdefault((kind, method), []).append((scores.correct, scores.confidence))
        if scores.predicted is not None:
            self._add_classes(condition(split), method, scores, scores.n_classes)

    def finish(self) -> None:
        """Make the curves of what was collected."""
        for (kind, method), parts in self._kept.items():
            correct, confidence = (np.concatenate(column) for column in zip(*parts, strict=True))
            whole = Scores(confidence, correct, np.ones(len(correct)))
            curve = compute_risk_coverage(whole, whole.weight).thinned()
            self.risk_coverage.setdefault(kind, {})[method] = curve
        for method, parts in self._divided.items():
            energy, temperature = (np.concatenate(c) for c in zip(*parts, strict=True))
            step = max(1, len(energy) // _MAX_TEMPERATURE_SAMPLES)
            self.temperatures[method] = _curve(energy[::step], temperature[::step])
        self._kept.clear()
        self._divided.clear()

    def _add_classes(self, name: str, method: str, scores: Scores, n_classes: int) -> None:
        empty = ClassSums(*np.zeros((3, n_classes)))
        sums = self.classes.setdefault(name, {}).setdefault(method, empty)
        columns = (np.ones(len(scores)), scores.correct, scores.confidence)
        for total, column in zip((sums.count, sums.correct, sums.confidence), columns, strict=True):
            total += np.bincount(scores.predicted, column, n_classes)  # type: ignore[arg-type]


def condition(split: Split) -> str:
    """Return the condition of a split: "source", "severity 3" or the name of its domain."""
    if split.is_source:
        return "source"
    return str(split.domain) if split.severity is None else f"severity {split.severity}"


def pool_reliability(curves: Iterable[Reliability]) -> Reliability:
    """Return the reliability curve of the samples of several curves with the same bins."""
    curves = list(curves)
    count = np.sum([c.count for c in curves], axis=0)
    confidence, correct = (
        np.sum([np.nan_to_num(getattr(c, name)) * c.count for c in curves], axis=0)
        for name in ("confidence", "accuracy")
    )
    return Reliability.of_sums(count, confidence, correct, curves[0].level)


def by_condition(diagnostics: Diagnostics, splits: Mapping[str, Split]) -> dict[str, list[str]]:
    """Return the names of the measured splits of each condition."""
    found: dict[str, list[str]] = {}
    for name in diagnostics.reliability:
        found.setdefault(condition(splits[name]), []).append(name)
    return found


def _energy_and_confidence(z: NDArray[Any]) -> NDArray[Any]:
    z = z.astype(np.float64)
    energy = -logsumexp(np_compat, z)[:, 0]
    return np.column_stack([energy, softmax(np_compat, z).max(axis=1)])


def _curve(energy: FloatArray, temperature: FloatArray) -> TemperatureCurve:
    order = np.argsort(energy, kind="stable")
    groups = np.array_split(order, min(_N_TEMPERATURE_GROUPS, len(order)))
    middle = np.array([np.median(energy[g]) for g in groups])
    quantiles = np.array([np.quantile(temperature[g], (0.05, 0.5, 0.95)) for g in groups])
    return TemperatureCurve(middle, *quantiles.T)
