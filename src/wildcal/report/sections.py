"""The charts and tables of the report page, section by section."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.diagnostics import Diagnostics, by_condition, pool_reliability
from wildcal.evaluation.results import Evaluation
from wildcal.evaluation.splits import ood_set
from wildcal.evaluation.tables import text_column
from wildcal.metrics import Estimate
from wildcal.report import charts
from wildcal.report.paper.names import plain
from wildcal.tables import Cell, Column, Table, number

_MAX_BINS: Final = 60_000
"""Bins of reliability diagrams on one page."""
_UNIT: Final = 10_000
"""Fractions of diagrams are sent as whole ten-thousandths."""


@dataclass(frozen=True)
class Chart:
    """A chart with its title and caption."""

    title: str
    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Content:
    """Results of one suite, with the order and the marks of its methods."""

    results: BenchmarkResults
    name: str
    """The name of the suite."""
    diagnostics: Diagnostics
    groups: Mapping[str, Evaluation]
    """Evaluations with groups of source test samples, by method."""

    @property
    def suite(self) -> Any:
        """The suite."""
        return self.results.suites[self.name].suite

    @cached_property
    def order(self) -> list[str]:
        """The methods, the lowest average ECE first."""
        return [m.name for m in self.results.ranked(self.name, "ece")]

    @cached_property
    def marks(self) -> charts.Marks:
        """The marks of the methods."""
        return charts.Marks(self.order)

    @property
    def chosen(self) -> list[str]:
        """Uncalibrated, if it was measured, and the method with the lowest ECE."""
        others = [m for m in self.order if m != "identity"]
        return ["identity"] * ("identity" in self.order) + others[:1]


def parts(content: Content) -> dict[str, Any]:
    """Return what sections show, by the variable of the template; empty without data."""
    return {
        "methods": content.results.table(content.name, "ece"),
        "shift": list(_shift(content)),
        "corruptions": _corruptions(content),
        "reliability": _reliability(content),
        "risk": list(_risk(content)),
        "groups": _groups(content),
        "ood": list(_ood(content)),
    }


def _shift(content: Content) -> Iterator[Chart]:
    """Yield the ECE by severity, or by named shift."""
    results, name = content.results, content.name
    conditions = results.conditions(name)
    averages = {m: results.average(name, m, "ece") for m in content.order}
    if results.has_severities(name):
        curves = {
            m: [(i, 100 * v) for i, v in enumerate(a.conditions)] for m, a in averages.items()
        }
        floor = [100 * v for v in averages[content.order[0]].floors]
        ticks = list(enumerate(conditions))
        svg = charts.line_chart(
            curves, content.marks, "severity", "ECE (%)", ticks=ticks, floor=floor
        )
        yield Chart(
            "ECE by severity",
            svg,
            f"Dashed: noise floor of {charts.method_label(content.order[0])}.",
        )
    elif len(conditions) > 1:
        estimates = {
            m: dict(zip(conditions, map(Estimate, average.conditions), strict=True))
            for m, average in averages.items()
        }
        yield Chart("ECE by domain", charts.dots_chart(estimates, content.marks, "ECE (%)"))


def _corruptions(content: Content) -> dict[str, str]:
    """Return the ECE by corruption for each severity, the highest first."""
    found = content.results.select(suite=content.name, metric="ece")
    found = sorted((m for m in found if m.corruption is not None), key=lambda m: str(m.corruption))
    highest = 100 * max((m.estimate.value for m in found), default=1.0)
    levels: dict[Any, dict[str, dict[str, Estimate]]] = {}
    for m in found:
        methods = levels.setdefault(m.severity, {name: {} for name in content.order})
        methods[m.method][str(m.corruption)] = Estimate(m.estimate.value)
    return {
        f"severity {level}": charts.dots_chart(
            levels[level], content.marks, "ECE (%)", highest=highest
        )
        for level in sorted(levels, reverse=True)
    }


def _reliability(content: Content) -> dict[str, Any]:
    """Return the diagrams of all methods under all conditions; empty without conditions."""
    kept, order = content.diagnostics, content.order
    groups = {
        f"{name}, all corruptions pooled" if len(splits) > 1 else name: splits
        for name, splits in by_condition(kept, {s.name: s for s in content.suite.test}).items()
    }
    if not groups:
        return {}
    first = next((name for name in groups if name.startswith("severity 3")), next(iter(groups)))
    cells = {split: [split] for splits in groups.values() if len(splits) > 1 for split in splits}
    if (len(groups) + len(cells)) * len(order) * kept.n_bins <= _MAX_BINS:
        groups |= cells
    tables = [[_diagram(kept, m, splits) for m in order] for splits in groups.values()]
    return {
        "conditions": list(groups),
        "selected": first,
        "methods": (content.chosen[0], content.chosen[-1]),
        "svg": charts.reliability_chart(kept.n_bins),
        "data": {"unit": _UNIT, "tables": tables},
    }


def _diagram(kept: Diagnostics, method: str, splits: Sequence[str]) -> dict[str, Any]:
    """Return the diagram of a method on pooled splits for the script of the page."""
    table = pool_reliability([kept.reliability[split][method] for split in splits])
    n = max(table.count.sum(), 1.0)
    columns = np.nan_to_num([table.confidence, table.accuracy, table.low, table.high])
    confidence, accuracy = (columns[:2] @ table.count / n).round(6).tolist()
    whole = np.where(table.count > 0, (columns * _UNIT).round(), -1)
    return {
        "n": int(n),
        "confidence": confidence,
        "accuracy": accuracy,
        "ece": round(table.ece, 6),
        "count": table.count.astype(int).tolist(),
        "bins": whole.astype(int).tolist(),
    }


def _risk(content: Content) -> Iterator[Chart]:
    """Yield the risk-coverage curves of source and of shifted samples."""
    first = content.order[0]
    for kind, found in content.diagnostics.risk_coverage.items():
        curves = {
            m: (100 * np.column_stack([found[m].coverage, found[m].risk])).tolist()
            for m in content.order
        }
        svg = charts.line_chart(curves, content.marks, "coverage (%)", "error rate (%)")
        coverage = f"{100 * found[first].coverage_at(0.95):.1f} % of these samples"
        caption = f"At an accuracy of 95 % {charts.method_label(first)} answers {coverage}."
        yield Chart(f"{kind.capitalize()} samples", svg, caption)


def _groups(content: Content) -> dict[str, Any]:
    """Return the methods, chart and table of groups, the highest excess ECE first."""
    found = {m: e for m, e in content.groups.items() if e.groups and m in content.order}
    if not found:
        return {}
    last = list(found.values())[-1]
    names = sorted(last.groups, key=lambda g: -float(last.groups[g].excess_ece))
    ece = {m: {g: e.groups[g].ece for g in names} for m, e in found.items()}
    groups = [last.groups[g] for g in names]
    columns = [
        text_column("group", names),
        (Column("samples"), [Cell(f"{e.n_samples:,}") for e in groups]),
        (Column("accuracy (%)"), [number(e.accuracy.value) for e in groups]),
    ]
    for m, column in ece.items():
        cells = [number(e.value, e.interval) for e in column.values()]
        columns.append((Column(f"ECE (%), {charts.method_label(m)}"), cells))
    columns.append((Column("noise floor (%)"), [number(e.ece.floor) for e in groups]))
    chart = Chart("ECE by group", charts.dots_chart(ece, content.marks, "ECE (%)"))
    table = Table.of("", columns, ())
    return {"methods": list(found), "charts": [chart], "table": table, "worst": last.worst_group}


def _ood(content: Content) -> Iterator[Chart]:
    """Yield the mean confidence of all methods on each OOD set."""
    for split in content.results.ood_splits(content.name):
        estimates = {
            m: {charts.method_label(m): e}
            for m in content.order
            if (e := content.results.estimate(content.name, m, split, "ood_mean_confidence"))
        }
        if estimates:
            svg = charts.dots_chart(estimates, content.marks, "mean confidence (%)", highest=100.0)
            yield Chart(f"Mean confidence on {plain(ood_set(split))}", svg)
