"""The sections of the report page: headings, notes, charts and tables for the template."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from wildcal.evaluation.benchmark_results import BenchmarkResults, FittedMethod
from wildcal.evaluation.diagnostics import Diagnostics, RawScores, pool_reliability
from wildcal.evaluation.results import Evaluation
from wildcal.evaluation.splits import ood_set
from wildcal.metrics import Reliability
from wildcal.metrics.reliability import wilson_interval
from wildcal.plots.energy import QUANTILES, HistogramDisplay
from wildcal.report.charts import (
    Curve,
    Marks,
    box_chart,
    dots_chart,
    histogram_chart,
    line_chart,
    reliability_chart,
    shown,
)
from wildcal.report.paper.names import plain
from wildcal.report.summary import conditions_of
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
class Choice:
    """Tables or charts of which a menu shows one."""

    label: str
    options: list[str]
    parts: list[Any]
    name: str
    title: str = ""


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    title: str
    notes: list[str] = field(default_factory=list)
    legend: str = ""
    charts: list[Chart] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    table: Table | None = None
    reliability: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Content:
    """What sections are made of."""

    results: BenchmarkResults
    name: str
    kept: Diagnostics
    groups: Mapping[str, Evaluation]

    def __post_init__(self) -> None:
        order = [m.name for m in self.fitted]
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "marks", Marks(order))

    max_classes: ClassVar[int] = 30
    """Rows of a table of predicted classes."""
    min_class_samples: ClassVar[int] = 5
    order: list[str] = field(init=False)
    """Methods, the lowest average ECE first."""
    marks: Marks = field(init=False)

    @property
    def suite(self) -> Any:
        """The suite."""
        return self.results.suites[self.name].suite

    @property
    def fitted(self) -> list[FittedMethod]:
        """The methods after their fits, in their order."""
        return self.results.ranked(self.name, "ece")

    @property
    def n_calibration(self) -> int:
        """The number of source samples for calibration."""
        return sum(s.n_samples for s in self.suite.calibration if s.is_source)

    @property
    def tested(self) -> list[str]:
        """What the suite tests on, in words."""
        splits = self.suite.test
        kinds = [s.corruption for s in splits if s.severity is not None]
        source = [f"{s.n_samples:,} source samples" for s in splits if s.is_source]
        cells = [f"{len(kinds)} corrupted conditions of {len(set(kinds))} corruptions"]
        others = [s for s in splits if not s.is_source and s.severity is None]
        names = [f"{s.n_samples:,} samples of {s.domain or s.name}" for s in others]
        return [*source, *(cells if kinds else []), *names]

    @property
    def chosen(self) -> list[str]:
        """Uncalibrated, if it was measured, and the method with the lowest ECE."""
        before = ["identity"] if "identity" in self.order else []
        return before + [m for m in self.order if m != "identity"][:1]


def sections(content: Content) -> Iterator[Section]:
    """Yield the sections in their order; those without data are left out."""
    yield methods_section(content)
    for make in (shift_section, reliability_section, risk_section, groups_section):
        yield from make(content)
    for make in (class_section, ood_section, energy_section, temperature_section):
        yield from make(content)


def methods_section(content: Content) -> Section:
    """Return the table of all methods."""
    table = content.results.table(content.name, "ece")
    return Section("Methods", list(table.notes), table=table)


def shift_section(content: Content) -> Iterator[Section]:
    """Yield ECE by severity and by corruption, or by named shift."""
    results, name = content.results, content.name
    conditions = results.conditions(name)
    if len(conditions) == 1:
        return
    averages = {m: results.average(name, m, "ece") for m in content.order}
    legend = content.marks.legend(content.order)
    if not results.has_severities(name):
        columns = {m: [100 * v for v in a.conditions] for m, a in averages.items()}
        chart = dots_chart(conditions, columns, content.marks, "ECE (%)")
        yield Section("ECE under shift", [], legend, [Chart("ECE by domain", chart)])
        return
    x = list(range(len(conditions)))
    curves = {m: Curve(x, [100 * v for v in a.conditions]) for m, a in averages.items()}
    floor = [100 * v for v in averages[content.order[0]].floors]
    ticks = [(float(i), c) for i, c in enumerate(conditions)]
    chart = line_chart(curves, content.marks, ("severity", "ECE (%)"), ticks=ticks, floor=floor)
    caption = f"Dashed: noise floor of {shown(content.order[0])}."
    charts = [Chart("ECE by severity", chart, caption)]
    yield Section("ECE under shift", [], legend, charts, [_by_corruption(content)])


def _by_corruption(content: Content) -> Choice:
    cells = {
        (m.method, str(m.corruption), m.severity): 100 * m.estimate.value
        for m in content.results.select(suite=content.name, metric="ece")
        if m.severity is not None
    }
    kinds = sorted({kind for _, kind, _ in cells})
    levels = sorted({level for _, _, level in cells if level is not None}, reverse=True)
    parts = []
    for level in levels:
        columns = {
            m: [cells.get((m, kind, level), float("nan")) for kind in kinds] for m in content.order
        }
        parts.append(
            dots_chart(kinds, columns, content.marks, "ECE (%)", highest=max(cells.values()))
        )
    options = [f"severity {level}" for level in levels]
    return Choice("At", options, parts, "by-corruption", "ECE by corruption")


def reliability_section(content: Content) -> Iterator[Section]:
    """Yield two reliability diagrams, each for any method, both for any condition."""
    kept, order = content.kept, content.order
    groups = {
        f"{name}, all corruptions pooled" if len(splits) > 1 else name: splits
        for name, splits in conditions_of(kept, content.suite).items()
    }
    if not groups:
        return
    first = next((name for name in groups if name.startswith("severity 3")), next(iter(groups)))
    cells = {split: [split] for splits in groups.values() if len(splits) > 1 for split in splits}
    if (len(groups) + len(cells)) * len(order) * kept.n_bins <= _MAX_BINS:
        groups |= cells
    tables = [
        [pool_reliability([kept.reliability[split][m] for split in splits]) for m in order]
        for splits in groups.values()
    ]
    data = [[_reliability_data(table) for table in row] for row in tables]
    reliability = {
        "conditions": list(groups),
        "selected": first,
        "methods": [shown(m) for m in order],
        "before": order.index(content.chosen[0]),
        "after": order.index(content.chosen[-1]),
        "svg": reliability_chart(kept.n_bins),
        "data": {"unit": _UNIT, "tables": data},
    }
    yield Section("Reliability", reliability=reliability)


def _reliability_data(table: Reliability) -> dict[str, Any]:
    filled = table.count > 0
    n = float(table.count.sum())
    columns = (table.confidence, table.accuracy, table.low, table.high)
    means = [float(np.nansum(c * table.count) / n) if n else 0.0 for c in columns[:2]]
    return {
        "n": int(n),
        "confidence": round(means[0], 6),
        "accuracy": round(means[1], 6),
        "ece": round(table.ece, 6),
        "count": table.count.astype(int).tolist(),
        "bins": [
            np.where(filled, np.nan_to_num(c * _UNIT).round(), -1).astype(int).tolist()
            for c in columns
        ],
    }


def risk_section(content: Content) -> Iterator[Section]:
    """Yield risk-coverage curves of source and shifted samples."""
    charts = []
    for kind, curves in content.kept.risk_coverage.items():
        found = {
            m: Curve((100 * c.coverage).tolist(), (100 * c.risk).tolist())
            for m in content.order
            if (c := curves.get(m)) is not None
        }
        best = next(iter(found))
        coverage = 100 * curves[best].coverage_at(0.95)
        chart = line_chart(found, content.marks, ("coverage (%)", "error rate (%)"), dots=False)
        text = f"At an accuracy of 95 % {shown(best)} answers {coverage:.1f} % of these samples."
        charts.append(Chart(f"{kind.capitalize()} samples", chart, text))
    if charts:
        yield Section("Risk and coverage", [], content.marks.legend(content.order), charts)


def groups_section(content: Content) -> Iterator[Section]:
    """Yield the ECE of groups of source test samples, the worst first."""
    found = {m: e for m, e in content.groups.items() if e.groups and m in content.order}
    if not found:
        return
    last = list(found.values())[-1]
    names = sorted(last.groups, key=lambda g: -float(last.groups[g].excess_ece))
    columns = {m: [_percent(e.groups[g].ece) for g in names] for m, e in found.items()}
    chart = dots_chart(names, columns, content.marks, "ECE (%)")
    heads = ["group", "samples", "accuracy (%)"]
    heads += [f"ECE (%), {shown(m)}" for m in found] + ["noise floor (%)"]
    rows = []
    for g in names:
        e = last.groups[g]
        ece = [number(x.ece.value, x.ece.interval) for x in (f.groups[g] for f in found.values())]
        cells = [Cell(g), Cell(f"{e.n_samples:,}"), number(e.accuracy.value), *ece]
        rows.append(tuple([*cells, number(e.ece.floor)]))
    note = f"Test samples by group. Highest excess ECE: {last.worst_group}."
    yield Section("Groups", [note], content.marks.legend(found), [Chart("ECE by group", chart)],
                  table=_table(heads, rows))  # fmt: skip


def class_section(content: Content) -> Iterator[Section]:
    """Yield a table of the predicted classes for each condition, the largest gaps first."""
    kept, chosen = content.kept.classes, content.chosen
    names = [name for name in kept if all(m in kept[name] for m in chosen)]
    tables = {name: t for name in names if (t := _class_table(content, name)) is not None}
    if not tables:
        return
    choice = Choice("Condition", list(tables), list(tables.values()), "by-class")
    yield Section("Predicted classes", choices=[choice])


def _class_table(content: Content, name: str) -> Table | None:
    sums = {m: content.kept.classes[name][m] for m in content.chosen}
    last = sums[content.chosen[-1]]
    known = np.flatnonzero(last.count >= content.min_class_samples)
    if not len(known):
        return None
    gaps = (last.confidence[known] - last.correct[known]) / last.count[known]
    known = known[np.argsort(-np.abs(gaps), kind="stable")][: content.max_classes]
    low, high = wilson_interval(last.correct, last.count, 0.95)
    heads = ["predicted class", "samples", "accuracy (%)"]
    heads += [f"{what}, {shown(m)}" for m in sums for what in ("confidence (%)", "gap")]
    rows = []
    for k in known:
        accuracy = float(last.correct[k] / last.count[k])
        cells = [Cell(plain(content.suite.class_names[k])), Cell(f"{int(last.count[k]):,}")]
        cells.append(number(accuracy, (float(low[k]), float(high[k])), digits=1))
        for s in sums.values():
            n = max(float(s.count[k]), 1.0)
            confidence, own = float(s.confidence[k]) / n, float(s.correct[k]) / n
            cells += [number(confidence, digits=1), number(confidence - own, digits=1, sign=True)]
        rows.append(tuple(cells))
    return _table(heads, rows)


def _table(heads: list[str], rows: list[tuple[Cell, ...]]) -> Table:
    """Return a table whose first column is text."""
    return Table("", (Column(heads[0], is_number=False), *map(Column, heads[1:])), tuple(rows))


def ood_section(content: Content) -> Iterator[Section]:
    """Yield the mean confidence on OOD samples."""
    charts = []
    for split in content.results.ood_splits(content.name):
        columns = {}
        rows = [shown(m) for m in content.order]
        for i, m in enumerate(content.order):
            e = content.results.estimate(content.name, m, split, "ood_mean_confidence")
            if e is not None:
                nan = float("nan")
                columns[m] = [_percent(e) if i == j else nan for j in range(len(rows))]
        label = "mean confidence (%)"
        chart = dots_chart(rows, columns, content.marks, label, highest=100.0)
        charts.append(Chart(f"Mean confidence on {plain(ood_set(split))}", chart))
    if charts:
        yield Section("OOD samples", charts=charts)


def energy_section(content: Content) -> Iterator[Section]:
    """Yield densities of confidence and energy, and the energy by condition."""
    raw, charts = content.kept.raw, list[Chart]()
    splits = [split for split in content.suite.test if split.name in raw]
    source = next((raw[split.name] for split in splits if split.is_source), None)
    if source is not None:
        charts += _histograms({"correct": (source, source.correct),
                               "incorrect": (source, ~source.correct)})  # fmt: skip
        for split in splits:
            if split.is_ood:
                ood, name = raw[split.name], plain(ood_set(split.name))
                charts += _histograms({"source samples": (source, ...), name: (ood, ...)})
    parts: dict[tuple[bool, str], list[RawScores]] = {}
    for split in sorted(splits, key=lambda s: (s.is_ood, not s.is_source, s.severity or 0)):
        name = "source" if split.is_source else plain(split.domain or ood_set(split.name))
        name = name if split.severity is None else str(split.severity)
        parts.setdefault((split.is_ood, name), []).append(raw[split.name])
    if len(parts) > 1:
        quantiles, accuracy = {}, {}
        for (is_ood, name), found in parts.items():
            energy = np.concatenate([r.energy for r in found])
            quantiles[name] = np.quantile(-energy, QUANTILES)
            if not is_ood:
                accuracy[name] = float(np.concatenate([r.correct for r in found]).mean())
        caption = "Boxes: quartiles; lines: 5 % to 95 %; corruptions pooled."
        chart = box_chart(quantiles, accuracy)
        charts.append(Chart("Negative energy and accuracy", chart, caption))
    if charts:
        yield Section("Energy and confidence", charts=charts)


def _histograms(groups: Mapping[str, tuple[RawScores, Any]]) -> Iterator[Chart]:
    """Yield the densities of both scores in two groups: raw scores, and which samples of them."""
    for title in ("confidence", "negative energy"):
        values = {
            name: (raw.confidence if title == "confidence" else -raw.energy)[chosen]
            for name, (raw, chosen) in groups.items()
        }
        display = HistogramDisplay.from_groups(values, title)
        if display.auroc is not None:
            chart = histogram_chart(display.edges, display.densities, title)
            yield Chart(f"{title.capitalize()}: AUROC {100 * display.auroc:.1f} %", chart)


def temperature_section(content: Content) -> Iterator[Section]:
    """Yield temperature against energy of the methods that have one for each sample."""
    kept = content.kept.temperatures
    curves = {
        m: Curve(*((column.tolist()) for column in (-c.energy, c.median, c.low, c.high)))
        for m in content.order
        if (c := kept.get(m)) is not None
    }
    if curves:
        chart = line_chart(
            curves, content.marks, ("negative energy", "temperature"), zero=False, dots=False
        )
        caption = "Lines: medians of test samples with about that energy; bands: 5 % to 95 %."
        charts = [Chart("Temperature against negative energy", chart, caption)]
        yield Section("Temperatures", [], content.marks.legend(curves), charts)


def _percent(e: Any) -> tuple[float, float, float]:
    low = e.value if e.low is None else e.low
    high = e.value if e.high is None else e.high
    return 100 * e.value, 100 * low, 100 * high
