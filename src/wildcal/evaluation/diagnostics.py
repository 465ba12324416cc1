"""Data of the charts in reports, collected during a benchmark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import array_api_compat.numpy as np_compat
import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import BoolArray, FloatArray, in_blocks, logsumexp, softmax
from wildcal.core.calibrator import Calibrator
from wildcal.io.suite import Split
from wildcal.metrics._scores import Scores
from wildcal.metrics.detection import RiskCoverage, compute_risk_coverage
from wildcal.metrics.reliability import Reliability, compute_reliability

# Approximate number of samples of each split whose temperatures are computed.
_N_TEMPERATURES: Final = 200


class RawScores(NamedTuple):
    """Samples of one split without calibration."""

    energy: FloatArray
    """Free energy, -logsumexp of the logits."""
    confidence: FloatArray
    correct: BoolArray


class TemperatureCurve(NamedTuple):
    """Temperatures of samples by energy, in groups of equally many."""

    energy: FloatArray
    """Median energy of each group."""
    low: FloatArray
    """5 % quantile of the temperatures."""
    median: FloatArray
    high: FloatArray
    """95 % quantile."""


@dataclass(eq=False)
class Diagnostics:
    """Curves and sums of the methods that were fitted on one suite."""

    n_bins: int
    reliability: dict[str, dict[str, Reliability]] = field(default_factory=dict)
    """By split, then method; without OOD splits. `pool_reliability` adds them."""
    raw: dict[str, RawScores] = field(default_factory=dict)
    """By split, OOD splits included."""
    risk_coverage: dict[str, dict[str, RiskCoverage]] = field(default_factory=dict)
    """By "source" or "shifted" (all shifted splits), then method."""
    temperatures: dict[str, TemperatureCurve] = field(default_factory=dict)
    """By method, of those with a temperature for each sample."""
    _predictions: dict[tuple[str, str], list[tuple[Any, Any]]] = field(default_factory=dict)
    _logits: list[NDArray[Any]] = field(default_factory=list)

    def add_split(self, split: Split) -> None:
        """Add the logits of a split."""
        z = split.logits
        energy, confidence = in_blocks(_energy_and_confidence, z).T
        self.raw[split.name] = RawScores(energy, confidence, z.argmax(axis=1) == split.y)
        # A copy: a view would keep all logits in memory.
        self._logits.append(z[:: max(1, len(z) // _N_TEMPERATURES)].copy())

    def add(self, split: Split, method: str, scores: Scores) -> None:
        """Add the predictions of a method on a split; those on OOD splits are not used."""
        if split.is_ood:
            return
        found = compute_reliability(scores, n_bins=self.n_bins)
        self.reliability.setdefault(split.name, {})[method] = found
        kind = "source" if split.is_source else "shifted"
        columns = (scores.confidence, scores.correct)
        self._predictions.setdefault((kind, method), []).append(columns)

    def finish(self, calibrators: Mapping[str, Calibrator]) -> None:
        """Compute the curves over several splits, of fitted calibrators by method."""
        if not self.raw:
            return
        for (kind, method), parts in self._predictions.items():
            confidence, correct = (np.concatenate(column) for column in zip(*parts, strict=True))
            scores = Scores(confidence, correct, np.ones(len(correct)))
            curve = compute_risk_coverage(scores).thinned()
            self.risk_coverage.setdefault(kind, {})[method] = curve
        z = np.concatenate(self._logits)
        energy = in_blocks(_energy_and_confidence, z)[:, 0]
        for method, calibrator in calibrators.items():
            if hasattr(calibrator, "temperatures"):
                self.temperatures[method] = temperature_curve(calibrator, z, energy)
        self._predictions.clear()
        self._logits.clear()


def temperature_curve(
    calibrator: Any, logits: Any, energy: FloatArray, *, n_groups: int = 40
) -> TemperatureCurve:
    """Return quantiles of the temperatures of samples in groups by energy."""
    t = np.broadcast_to(np.ravel(calibrator.temperatures(logits)), energy.shape)
    order = np.argsort(energy, kind="stable")
    groups = np.array_split(order, min(n_groups, len(order)))
    middle = np.array([np.median(energy[g]) for g in groups])
    quantiles = np.array([np.quantile(t[g], (0.05, 0.5, 0.95)) for g in groups])
    return TemperatureCurve(middle, *quantiles.T)


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
