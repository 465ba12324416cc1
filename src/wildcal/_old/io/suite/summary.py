"""What a suite holds, in a few numbers: accuracy, confidence and energy of the raw logits."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from wildcal._old.core.softmax import confidence_at, energy_and_pred
from wildcal._old.io.suite import Suite, SuiteSplit


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """One split, or several pooled: every row counts the same.

    `accuracy` is None where rows have no class; `corruption` and `severity` are None where there is
    none or where several were pooled. `mean_energy` is the mean of F = -logsumexp(z).
    """

    name: str
    role: str
    shift: str
    corruption: str | None
    severity: int | None
    cells: int
    rows: int
    accuracy: float | None
    mean_confidence: float
    mean_energy: float

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return asdict(self)


def summarize_split(split: SuiteSplit) -> SplitSummary:
    """Return the numbers of one split."""
    logits = split.logits
    energy, pred = energy_and_pred(logits)
    confidence = confidence_at(logits, lambda _: np.ones(1))
    return SplitSummary(
        name=split.name,
        role=split.role,
        shift=split.shift,
        corruption=split.corruption,
        severity=split.severity,
        cells=1,
        rows=split.rows,
        accuracy=None if split.shift == "semantic" else float((pred == split.y).mean()),
        mean_confidence=float(confidence.mean(dtype=np.float64)),
        mean_energy=float(energy.mean()),
    )


def summarize(
    suite: Suite, *, progress: Callable[[int], object] | None = None
) -> list[SplitSummary]:
    """Return the numbers of every split; `progress` is told the rows of each that is done."""
    summaries = []
    with suite.opened():
        for split in suite.splits:
            summaries.append(summarize_split(split))
            if progress is not None:
                progress(split.rows)
    return summaries


def grouped(splits: Sequence[SplitSummary]) -> list[SplitSummary]:
    """Return clean rows, then corruptions pooled by severity, then every other set by itself."""
    groups: list[SplitSummary] = []
    for role in ("tune", "test"):
        groups += _pooled("clean", [s for s in splits if (s.role, s.shift) == (role, "none")])
    for role in ("test", "tune", "perturb"):
        corrupted = [s for s in splits if (s.role, s.shift) == (role, "covariate") and s.corruption]
        for severity in sorted({s.severity for s in corrupted if s.severity}):
            same = [s for s in corrupted if s.severity == severity]
            groups += [replace(g, severity=severity) for g in _pooled(f"severity {severity}", same)]
    groups += [s for s in splits if s.shift == "semantic"]
    groups += [s for s in splits if s.shift == "covariate" and not s.corruption]
    return groups


def _pooled(name: str, parts: Sequence[SplitSummary]) -> list[SplitSummary]:
    """Return the parts as one summary, or nothing if there are none."""
    if not parts:
        return []
    rows = sum(part.rows for part in parts)

    def mean(values: Sequence[float]) -> float:
        return sum(v * part.rows for v, part in zip(values, parts, strict=True)) / rows

    return [
        SplitSummary(
            name=name,
            role=parts[0].role,
            shift=parts[0].shift,
            corruption=None,
            severity=None,
            cells=len(parts),
            rows=rows,
            accuracy=mean([part.accuracy or 0.0 for part in parts]),
            mean_confidence=mean([part.mean_confidence for part in parts]),
            mean_energy=mean([part.mean_energy for part in parts]),
        )
    ]
