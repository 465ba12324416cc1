"""Results of `run_benchmark`: a tidy table, and averages with paired intervals."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Final

import numpy as np

from wildcal.core.arrays import FloatArray
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError
from wildcal.evaluation import tables
from wildcal.evaluation.diagnostics import Diagnostics
from wildcal.evaluation.information import InformationUsed
from wildcal.evaluation.results import FORMAT_VERSION, Result, as_loss, estimate_columns
from wildcal.io.suite import Split, Suite
from wildcal.metrics._scores import Scores
from wildcal.metrics.bootstrap import Difference, Estimate, difference, interval
from wildcal.metrics.registry import METRICS, Metric, get_metric
from wildcal.tables import Column, Table, number

SEVERITIES: Final = (1, 2, 3, 4, 5)
_OOD_COLUMNS: Final = {"ood_mean_confidence": "confidence on", "ood_auroc": "AUROC of"}
"""Metrics of OOD splits that tables show."""


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
    replicates: FloatArray | None = field(default=None, repr=False, compare=False)
    """The metric of bootstrap replicates, which are of the same samples for all methods."""

    def to_dict(self) -> dict[str, Any]:
        """Return a row of the tidy table."""
        names = ("suite", "method", "split", "domain", "corruption", "severity", "metric")
        row = {name: getattr(self, name) for name in names}
        more = {"n_samples": self.n_samples, "data_used": str(self.information)}
        return {**row, **estimate_columns(self.estimate), **more}


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
    diagnostics: Diagnostics | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class BenchmarkResults(Result):
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
        found = {metric for _, _, metric in self._groups}
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
        """Return the conditions of averages: severities 0 to 5, or the source and each shift.

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
        values = tuple(_mean(m.estimate.value for m in group) for group in groups)
        floors = tuple(_mean(m.estimate.floor for m in group) for group in groups)
        value, floor = float(np.mean(values)), float(np.mean(floors))
        drawn, level = self.replicates(suite, method, metric), self.suites[suite].level
        low, high = interval(METRICS[metric], value, drawn, level)
        if low is not None and high is not None and math.isnan(floor):
            low, high = min(low, value), max(high, value)
        if low is not None and value <= floor:
            low = 0.0
        if len(groups) == len(groups[0]) == 1:  # a suite without shifts
            low, high = groups[0][0].estimate.low, groups[0][0].estimate.high
        return Average(value, low, high, None if math.isnan(floor) else floor, values, floors)

    def difference(self, suite: str, a: str, b: str, metric: str | None = None) -> Difference:
        """Return the average of method a minus that of b, with a paired interval over samples."""
        metric = metric or self.primary
        values = [self.average(suite, m, metric).value for m in (a, b)]
        drawn = [self.replicates(suite, m, metric) for m in (a, b)]
        both = None if drawn[0] is None or drawn[1] is None else drawn[0] - drawn[1]
        return difference(values[0] - values[1], both, self.suites[suite].level)

    def replicates(self, suite: str, method: str, metric: str | None = None) -> FloatArray | None:
        """Return the averages of bootstrap replicates, None if there are none.

        Replicates are of the same samples for all methods.
        """
        means = []
        for group in self._by_condition(suite, method, metric or self.primary):
            drawn = [m.replicates for m in group if m.replicates is not None]
            if not drawn:
                return None
            means.append(np.mean(drawn, axis=0))
        return np.asarray(np.mean(means, axis=0))

    def ranked(self, suite: str, metric: str | None = None) -> list[FittedMethod]:
        """Return the methods of a suite, the best average first, then by the source."""
        metric = metric or self.primary

        def key(method: FittedMethod) -> list[float]:
            average = self.average(suite, method.name, metric)
            values = (average.value, average.conditions[0])
            return [math.inf if math.isnan(v) else as_loss(metric, v) for v in values]

        return sorted(self.suites[suite].methods, key=key)

    def ood_splits(self, suite: str) -> list[str]:
        """Return the OOD splits that methods were measured on."""
        return list(dict.fromkeys(m.split for m in self.select(suite=suite, domain=None)))

    def table(self, suite: str | None = None, metric: str | None = None) -> Table:
        """Return the methods of a suite (by default the first), the best average first."""
        if not self.suites:
            reasons = tuple(f"{name}: {reason}" for name, reason in self.skipped.items())
            return Table("No suite was measured.", (), (), reasons)
        suite = next(iter(self.suites)) if suite is None else suite
        if suite not in self.suites:
            raise InputError(
                f"suite must be one of {', '.join(self.suites)}, got {suite!r}.", "suite"
            )
        return self._table(suite, get_metric(metric or self.primary))

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

    def _by_condition(self, suite: str, method: str, metric: str) -> list[list[Measurement]]:
        """Return the measurements of each condition; one with missing corruptions is empty."""
        measured = self._groups.get((suite, method, metric), [])
        if not self.has_severities(suite):
            return [[m for m in measured if m.domain == name] for name in self.conditions(suite)]
        source = [m for m in measured if m.domain == "source"]
        groups = [[m for m in measured if m.severity == severity] for severity in SEVERITIES]
        wanted = {m.corruption for m in measured if m.corruption}
        return [source, *(g if {m.corruption for m in g} == wanted else [] for g in groups)]

    def _table(self, suite: str, metric: Metric) -> Table:
        methods = self.ranked(suite, metric.name)
        if not methods:
            reasons = tables.failure_notes(self.suites[suite].failed)
            return Table(f"{suite}: no method could be fitted.", (), (), reasons)
        names = [m.name for m in methods]
        averages = [self.average(suite, name, metric.name) for name in names]
        differences = [self.difference(suite, name, names[0], metric.name) for name in names[1:]]
        columns = [
            tables.text_column("method", names),
            tables.estimate_column(f"average {metric.title}", metric, averages, interval=True),
            tables.difference_column(metric, differences),
        ]
        if any(a.floor is not None for a in averages):
            columns += [
                (Column("excess", priority=8), [number(a.excess) for a in averages]),
                (Column("noise floor", priority=3), [number(a.floor) for a in averages]),
            ]
        for i, condition in enumerate(self.conditions(suite)):
            column = Column(condition, priority=0 if condition in ("0", "5", "source") else 1)
            cells = [number(a.conditions[i], percent=metric.is_percent) for a in averages]
            columns.append((column, cells))
        for other in (METRICS[name] for name in self.metrics):
            if other.needs != "ood" and other.name not in (metric.name, "mean_confidence"):
                others = [self.average(suite, name, other.name) for name in names]
                head = f"average {other.title}"
                columns.append(tables.estimate_column(head, other, others, priority=7))
        for split in self.ood_splits(suite):
            for key, title in _OOD_COLUMNS.items():
                found = [self.estimate(suite, name, split, key) for name in names]
                if any(found):
                    head = f"{title} {split}"
                    columns.append(tables.estimate_column(head, METRICS[key], found, priority=9))
        columns.append(
            tables.text_column("data used", [m.information for m in methods], priority=10)
        )
        return Table.of(suite, columns, self._notes(suite, metric, averages[0]))

    def _notes(self, suite: str, metric: Metric, best: Average) -> list[str]:
        found = self.suites[suite]
        unit = " in per cent" if metric.is_percent else ""
        over = "the source and of each shift"
        if self.has_severities(suite):
            over = "the source (0) and the means over corruptions at severities 1 to 5"
        notes = [f"{metric.title}{unit}; average: the mean of {over}. {tables.FLOOR}"]
        if found.n_bootstrap:
            notes.append(
                f"Intervals: {100 * found.level:g} %, bootstrap over samples; those of the ECE are"
                " corrected for its upward bias. To best: paired difference to the first method;"
                " n.s.: its interval contains 0."
            )
        if best.excess is not None and best.excess < best.value / 2:
            notes.append(
                "More than half of the best average is noise floor: the splits have few samples."
                " Compare the excess, or use more samples."
            )
        if f"{found.ood_set}-test" in self.ood_splits(suite):
            notes.append(
                f"{found.ood_set}-test: other samples of the set that methods were fitted with."
            )
        notes += tables.failure_notes(found.failed)
        skipped = {k: v for k, v in self.skipped.items() if k.startswith(f"{suite}: ")}
        return notes + [f"Skipped {name}: {reason}" for name, reason in skipped.items()]


def missing_conditions(splits: Sequence[Split]) -> str:
    """Return the conditions that an average over severities lacks; empty if there are none."""
    cells = {(s.corruption, s.severity) for s in splits if s.corruption is not None}
    wanted = product({corruption for corruption, _ in cells}, SEVERITIES)
    missing = sorted(f"{corruption} at severity {s}" for corruption, s in {*wanted} - cells)
    if cells and not any(split.is_source for split in splits):
        missing.insert(0, "source test split")
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"there is no {', '.join(missing[:3])}{more}." if missing else ""


def _mean(values: Iterable[float | None]) -> float:
    """Return the mean; NaN if there is no value or one is missing."""
    known = [math.nan if value is None else value for value in values]
    return float(np.mean(known)) if known else math.nan
