"""Results of `run_benchmark`: a tidy table, and averages with paired intervals."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from wildcal.core.arrays import FloatArray
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError
from wildcal.evaluation.diagnostics import Diagnostics
from wildcal.evaluation.information import InformationUsed
from wildcal.evaluation.results import FORMAT_VERSION, Shown
from wildcal.evaluation.tables import benchmark_table
from wildcal.io.suite import Split, Suite
from wildcal.metrics._scores import Scores
from wildcal.metrics.bootstrap import Difference, Estimate, difference, interval
from wildcal.metrics.registry import METRICS
from wildcal.tables import Table, to_html, to_text

SEVERITIES: Final = (1, 2, 3, 4, 5)


@dataclass(frozen=True, eq=False)
class FittedMethod:
    """A method after its fit on one suite."""

    name: str
    calibrator: Calibrator
    information: InformationUsed
    fit_seconds: float
    scores: Callable[[Any, Any, Any], Scores] | None = None
    """See `MethodSpec.scores`."""


@dataclass(frozen=True)
class Measurement:
    """One metric of one method on one split of one suite."""

    suite: str
    method: str
    information: InformationUsed
    split: str
    domain: str | None
    """"source", the name of a shifted domain, or None for OOD samples."""
    corruption: str | None
    severity: int | None
    metric: str
    estimate: Estimate
    n_samples: int

    @classmethod
    def of(
        cls, suite: str, method: FittedMethod, split: Split, metric: str, estimate: Estimate
    ) -> "Measurement":
        """Return the measurement of a method on a split."""
        place = (split.name, split.domain, split.corruption, split.severity)
        return cls(
            suite, method.name, method.information, *place, metric, estimate, split.n_samples
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a row of the tidy table."""
        names = ("suite", "method", "split", "domain", "corruption", "severity", "metric")
        row = {name: getattr(self, name) for name in names}
        e = self.estimate
        row |= {"value": e.value, "low": e.low, "high": e.high, "noise_floor": e.floor}
        return {**row, "n_samples": self.n_samples, "data_used": str(self.information)}


@dataclass(frozen=True)
class Average(Estimate):
    """A metric averaged over conditions of a suite."""

    conditions: tuple[float, ...] = ()
    """The value of each condition, see `BenchmarkResults.conditions`."""
    floors: tuple[float, ...] = ()
    """The noise floor of each condition; NaN where the metric has none."""


@dataclass(frozen=True, eq=False)
class SuiteResult:
    """One suite in a benchmark."""

    suite: Suite
    methods: tuple[FittedMethod, ...]
    failed: Mapping[str, str]
    """Methods that could not be fitted, with the reason."""
    ood_set: str | None
    """The OOD set that methods were fitted with."""
    n_bins: int
    n_bootstrap: int
    level: float
    replicates: Mapping[tuple[str, str], FloatArray] = field(repr=False)
    """By metric and split, shape (n_methods, n_bootstrap)."""
    diagnostics: Diagnostics | None = field(default=None, repr=False)

    def index(self, method: str) -> int:
        """Return the position of a method."""
        return [m.name for m in self.methods].index(method)


@dataclass(frozen=True, eq=False)
class BenchmarkResults(Shown):
    """All measurements of a benchmark."""

    measurements: tuple[Measurement, ...] = field(repr=False)
    suites: Mapping[str, SuiteResult]
    skipped: Mapping[str, str]
    """Suites and splits that could not be used, with the reason."""

    @cached_property
    def _groups(self) -> dict[tuple[str, str, str], list[Measurement]]:
        found: dict[tuple[str, str, str], list[Measurement]] = {}
        for m in self.measurements:
            found.setdefault((m.suite, m.method, m.metric), []).append(m)
        return found

    @property
    def metrics(self) -> list[str]:
        """The metrics that were measured, in the order of the registry."""
        found = {measurement.metric for measurement in self.measurements}
        return [name for name in METRICS if name in found]

    @property
    def primary(self) -> str:
        """The metric of the ranking: ECE, or the first one that has a better side."""
        ranking = [m for m in self.metrics if METRICS[m].better and METRICS[m].needs != "ood"]
        return "ece" if "ece" in ranking or not ranking else ranking[0]

    def select(self, **wanted: object) -> list[Measurement]:
        """Return the measurements whose fields have these values."""
        return [m for m in self.measurements if all(getattr(m, k) == v for k, v in wanted.items())]

    def estimate(self, suite: str, method: str, split: str, metric: str) -> Estimate | None:
        """Return one number, None if it was not measured."""
        found = (m for m in self._groups.get((suite, method, metric), ()) if m.split == split)
        return next((m.estimate for m in found), None)

    def has_severities(self, suite: str) -> bool:
        """Return whether the suite has corruptions with severities."""
        return any(split.severity is not None for split in self.suites[suite].suite.test)

    def conditions(self, suite: str) -> tuple[str, ...]:
        """Return what averages are over: severities 0 to 5, or the source and each shift.

        Severity 0 is the source.
        """
        if self.has_severities(suite):
            return tuple(str(severity) for severity in (0, *SEVERITIES))
        shifted = [s for s in self.suites[suite].suite.test if s.is_shifted]
        return ("source", *dict.fromkeys(str(s.domain) for s in shifted))

    def average(self, suite: str, method: str, metric: str | None = None) -> Average:
        """Return the mean of a metric over conditions, each the mean over its splits.

        With severities this is the average of the paper: (source + the means over corruptions at
        severities 1 to 5) / 6. NaN if a condition is missing.
        """
        metric = metric or self.primary
        groups = self._by_condition(suite, method, metric)
        values = tuple(_mean([m.estimate.value for m in group]) for group in groups)
        floors = tuple(_mean([_or_nan(m.estimate.floor) for m in group]) for group in groups)
        value, floor = float(np.mean(values)), float(np.mean(floors))
        low = high = None
        drawn = self.replicates(suite, method, metric)
        if drawn is not None and not math.isnan(value):
            kind = METRICS[metric].kind
            low, high = interval(kind, value, drawn, self.suites[suite].level)
            if low is not None and value <= floor:
                low = 0.0
        known = None if math.isnan(floor) else floor
        return Average(value, low, high, known, values, floors)

    def difference(self, suite: str, a: str, b: str, metric: str | None = None) -> Difference:
        """Return the average of method a minus that of b, with a paired interval over images."""
        metric = metric or self.primary
        values = [self.average(suite, m, metric).value for m in (a, b)]
        drawn = [self.replicates(suite, m, metric) for m in (a, b)]
        both = None if drawn[0] is None or drawn[1] is None else drawn[0] - drawn[1]
        return difference(values[0] - values[1], both, self.suites[suite].level)

    def replicates(self, suite: str, method: str, metric: str | None = None) -> FloatArray | None:
        """Return the averages of bootstrap replicates, None if there are none.

        Replicates are of the same images for all methods.
        """
        metric = metric or self.primary
        found, row = self.suites[suite], self.suites[suite].index(method)
        groups = self._by_condition(suite, method, metric)
        if not found.replicates or not all(groups):
            return None
        means = [
            np.mean([found.replicates[metric, m.split][row] for m in group], axis=0)
            for group in groups
        ]
        return np.asarray(np.mean(means, axis=0))

    def ranked(self, suite: str, metric: str | None = None) -> list[FittedMethod]:
        """Return the methods of a suite, the best average first, then by the source."""
        metric = metric or self.primary
        sign = -1 if METRICS[metric].better == "higher" else 1

        def key(method: FittedMethod) -> list[float]:
            average = self.average(suite, method.name, metric)
            values = (average.value, average.conditions[0])
            return [math.inf if math.isnan(v) else sign * v for v in values]

        return sorted(self.suites[suite].methods, key=key)

    def ood_splits(self, suite: str) -> list[str]:
        """Return the OOD splits that methods were measured on."""
        found = [m for m in self.measurements if m.suite == suite and m.domain is None]
        return list(dict.fromkeys(m.split for m in found))

    def table(self, suite: str | None = None, metric: str | None = None) -> Table:
        """Return the methods of a suite (by default the first), the best average first."""
        if not self.suites:
            reasons = tuple(f"{name}: {reason}" for name, reason in self.skipped.items())
            return Table("No suite was measured.", (), (), reasons)
        if suite is not None and suite not in self.suites:
            raise InputError(
                f"suite must be one of {', '.join(self.suites)}, got {suite!r}.", "suite"
            )
        return benchmark_table(self, suite or next(iter(self.suites)), metric or self.primary)

    def tables(self, metric: str | None = None) -> list[Table]:
        """Return the table of each suite."""
        return [self.table(name, metric) for name in self.suites] or [self.table()]

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each measurement."""
        return [measurement.to_dict() for measurement in self.measurements]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": "wildcal benchmark",
            "format_version": FORMAT_VERSION,
            "measurements": self.records(),
            "failed": {name: dict(found.failed) for name, found in self.suites.items()},
            "skipped": dict(self.skipped),
        }

    def __str__(self) -> str:
        return "\n\n".join(to_text(table) for table in self.tables())

    def _repr_html_(self) -> str:
        return "".join(to_html(table) for table in self.tables())

    def _by_condition(self, suite: str, method: str, metric: str) -> list[list[Measurement]]:
        """Return the measurements of each condition; one with missing corruptions is empty."""
        mine = self._groups.get((suite, method, metric), [])
        source = [m for m in mine if m.domain == "source"]
        if not self.has_severities(suite):
            names = self.conditions(suite)[1:]
            return [source, *([m for m in mine if m.domain == name] for name in names)]
        groups = [[m for m in mine if m.severity == severity] for severity in SEVERITIES]
        wanted = {m.corruption for m in mine if m.corruption}
        return [source, *(g if {m.corruption for m in g} == wanted else [] for g in groups)]


def missing_conditions(splits: Sequence[Split]) -> str:
    """Return what an average over severities lacks; empty if nothing, or without corruptions."""
    cells = {(s.corruption, s.severity) for s in splits if s.corruption is not None}
    if not cells:
        return ""
    n_source = sum(split.is_source for split in splits)
    if n_source != 1:
        return f"there must be one source test split, got {n_source}."
    wanted = {(corruption, severity) for corruption, _ in cells for severity in SEVERITIES}
    missing = sorted(f"{corruption} at severity {s}" for corruption, s in wanted - cells)
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"there is no {', '.join(missing[:3])}{more}." if missing else ""


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
