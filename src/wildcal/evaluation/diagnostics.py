"""Data of the charts in reports, collected during a benchmark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wildcal.io.suite import Split
from wildcal.metrics._scores import Scores
from wildcal.metrics.detection import RiskCoverage, compute_risk_coverage
from wildcal.metrics.reliability import Reliability, compute_reliability


@dataclass(eq=False)
class Diagnostics:
    """Curves and sums of the methods that were fitted on one suite."""

    n_bins: int
    reliability: dict[str, dict[str, Reliability]] = field(default_factory=dict)
    """By split, then method; without OOD splits. `pool_reliability` adds them."""
    risk_coverage: dict[str, dict[str, RiskCoverage]] = field(default_factory=dict)
    """By "source" or "shifted" (all shifted splits), then method."""
    _predictions: dict[tuple[str, str], list[tuple[Any, Any]]] = field(default_factory=dict)

    def add(self, split: Split, method: str, scores: Scores) -> None:
        """Add the predictions of a method on a split; those on OOD splits are not used."""
        if split.is_ood:
            return
        found = compute_reliability(scores, n_bins=self.n_bins)
        self.reliability.setdefault(split.name, {})[method] = found
        kind = "source" if split.is_source else "shifted"
        columns = (scores.confidence, scores.correct)
        self._predictions.setdefault((kind, method), []).append(columns)

    def finish(self) -> None:
        """Compute the curves over several splits."""
        for (kind, method), parts in self._predictions.items():
            confidence, correct = (np.concatenate(column) for column in zip(*parts, strict=True))
            scores = Scores(confidence, correct, np.ones(len(correct)))
            curve = compute_risk_coverage(scores).thinned()
            self.risk_coverage.setdefault(kind, {})[method] = curve
        self._predictions.clear()


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
