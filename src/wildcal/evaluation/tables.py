"""Results as tables."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wildcal.metrics import METRICS, Difference, Estimate, Metric
from wildcal.tables import Cell, Column, Table, number, with_ranks

if TYPE_CHECKING:
    from wildcal.evaluation.benchmark_results import BenchmarkResults
    from wildcal.evaluation.results import Comparison, Evaluation, ModelComparison

UNITS: Final = "In per cent, except scores (NLL, Brier), slope, intercept and z."
FLOOR: Final = "Noise floor: the expected value of a perfectly calibrated model on these samples."

COMPARED: Final = (
    "nll", "ece", "excess_ece", "binary_ece", "accuracy", "brier_score", "ood_auroc",
    "ood_mean_confidence",
)  # fmt: skip
"""Metrics of a comparison, in the order of its table."""
_OOD_COLUMNS: Final = {"ood_mean_confidence": "confidence on", "ood_auroc": "AUROC of"}
"""Metrics of OOD splits that a benchmark shows."""
_PRIORITY: Final = {"excess_ece": 2, "ood_auroc": 3, "brier_score": 4, "ood_mean_confidence": 4}
_DATA_USED: Final = Column("data used", is_number=False, priority=5)


def evaluation_table(evaluation: "Evaluation") -> Table:
    """Return all metrics of an evaluation."""
    rows = []
    for name, estimate in evaluation.estimates.items():
        rows.append((METRICS[name].title, METRICS[name].is_percent, estimate))
        if name == "accuracy" and evaluation.uncalibrated_accuracy is not None:
            other = Estimate(evaluation.uncalibrated_accuracy)
            rows.append(("accuracy, uncalibrated", True, other))
    columns = [
        (Column("metric", is_number=False), [Cell(title) for title, _, _ in rows]),
        (Column("value"), [number(e.value, percent=percent) for _, percent, e in rows]),
        (Column("noise floor"), [number(e.floor, percent=percent) for _, percent, e in rows]),
    ]
    notes = [UNITS, FLOOR]
    if evaluation.n_bootstrap:
        intervals = [_interval_cell(e, percent=percent) for _, percent, e in rows]
        columns.insert(2, (Column(f"{100 * evaluation.level:g} % interval"), intervals))
        notes.append(
            f"Intervals: bootstrap with {evaluation.n_bootstrap} replicates. The interval of excess"
            " ECE is that of the calibration error without its upward bias on finite samples."
        )
    ood = f", {evaluation.n_ood:,} OOD samples" if evaluation.n_ood else ""
    title = f"{evaluation.n_samples:,} samples{ood}, {evaluation.n_bins} bins"
    return Table.of(title, columns, notes)


def group_table(evaluation: "Evaluation") -> Table:
    """Return a row for each group, the highest excess ECE first."""
    groups = list(evaluation.groups.items())
    names = ("accuracy", "mean_confidence", "nll", "ece", "excess_ece", "binary_ece")
    shown = [name for name in names if any(name in e for _, e in groups)]
    if "excess_ece" in shown:
        groups.sort(key=lambda item: -item[1]["excess_ece"].value)
    each = [e for _, e in groups]
    columns = [
        (Column("group", is_number=False), [Cell(group) for group, _ in groups]),
        (Column("samples"), [Cell(f"{e.n_samples:,}", e.n_samples) for e in each]),
    ]
    for name in shown:
        estimates = [e.estimates.get(name) for e in each]
        priority = 0 if "ece" in name else 1
        columns += _metric_columns(
            name, estimates, priority=priority, interval=name == "excess_ece"
        )
    return Table.of("By group", columns, [UNITS])


def comparison_table(comparison: "Comparison") -> Table:
    """Return a row for each method, best first."""
    failed = [f"{name} failed: {reason}" for name, reason in comparison.failed.items()]
    methods, metric = comparison.methods, METRICS[comparison.sort]
    if not methods:
        return Table("No method could be fitted.", (), (), tuple(failed))
    first = comparison.best.evaluation
    columns = []
    for name in dict.fromkeys((comparison.sort, *(n for n in COMPARED if n in first))):
        estimates = [m.evaluation.estimates.get(name) for m in methods]
        is_first = name == comparison.sort
        priority = 0 if is_first else _PRIORITY.get(name, 1)
        columns += _metric_columns(
            name, estimates, priority=priority, interval=is_first, ranked=True
        )
    columns.insert(0, (Column("method", is_number=False), [Cell(m.name) for m in methods]))
    columns.insert(2, (Column("to best"), [_gap_cell(metric, m.difference) for m in methods]))
    kept = ["yes" if m.preserves_accuracy else f"no ({m.changed:.1%} changed)" for m in methods]
    seconds = [Cell(f"{m.fit_seconds:.2f}", m.fit_seconds) for m in methods]
    columns += [
        (Column("accuracy preserved", is_number=False, priority=3), [Cell(k) for k in kept]),
        (Column("fit (s)", priority=6), seconds),
        (_DATA_USED, [Cell(str(m.information)) for m in methods]),
    ]
    notes = [
        f"Sorted by {metric.title}. {UNITS} {FLOOR}",
        "To best: paired difference to the first method on the same bootstrap replicates; n.s.: its"
        f" {100 * first.level:g} % interval contains 0.",
    ]
    ood = f", {first.n_ood:,} OOD samples" if first.n_ood else ""
    return Table.of(f"{first.n_samples:,} test samples{ood}", columns, [*notes, *failed])


def model_table(comparison: "ModelComparison") -> Table:
    """Return a row for each metric: values of all models, differences to the first."""
    (reference, first), *others = comparison.evaluations.items()
    metrics = [METRICS[name] for name in first]
    columns = [
        (Column("metric", is_number=False), [Cell(m.title) for m in metrics]),
        (Column(reference), [_cell(m, first[m.name]) for m in metrics]),
    ]
    for name, e in others:
        gaps, verdicts = comparison.differences[name], comparison.verdicts[name]
        differences = [_cell(m, gaps.get(m.name), interval=True, sign=True) for m in metrics]
        columns += [
            (Column(name), [_cell(m, e.estimates.get(m.name)) for m in metrics]),
            (Column(f"{name} - {reference}"), differences),
            (Column("verdict", False), [Cell(verdicts.get(m.name, "")) for m in metrics]),
        ]
    level = f"{100 * first.level:g} %"
    notes = [UNITS, f"Differences with paired {level} intervals on the same bootstrap replicates."]
    if comparison.margin is not None:
        notes.append(f"Equivalent: the interval lies within {comparison.margin:g}.")
    return Table.of(f"{first.n_samples:,} samples", columns, notes)


def _metric_columns(
    name: str,
    estimates: Sequence[Estimate | None],
    *,
    priority: int,
    interval: bool = False,
    ranked: bool = False,
) -> list[tuple[Column, list[Cell]]]:
    """Return the column of a metric. After the ECE stands its noise floor."""
    metric = METRICS[name]
    cells = [_cell(metric, estimate, interval=interval) for estimate in estimates]
    if ranked:
        cells = with_ranks(cells, metric.better)
    columns = [(Column(metric.title, priority=priority), cells)]
    if name == "ece":
        floors = [number(estimate.floor if estimate else None) for estimate in estimates]
        columns.append((Column("noise floor", priority=2), floors))
    return columns


def _cell(
    metric: Metric, estimate: Estimate | None, *, interval: bool = False, sign: bool = False
) -> Cell:
    if estimate is None:
        return number(None)
    shown = estimate.interval if interval else None
    return number(estimate.value, shown, percent=metric.is_percent, sign=sign)


def _interval_cell(estimate: Estimate, *, percent: bool) -> Cell:
    """Return the interval; that of an error with a noise floor stands beside its excess."""
    if estimate.interval is None or estimate.floor is not None:
        return Cell("")
    low, high = (number(end, percent=percent).text for end in estimate.interval)
    return Cell(f"{low} to {high}")


def _gap_cell(metric: Metric, gap: Difference | None) -> Cell:
    """Return the difference to the best; None is the best."""
    if gap is None:
        return Cell("best")
    note = "" if gap.low is None or gap.is_significant else "n.s."
    return number(gap.value, percent=metric.is_percent, sign=True, note=note)


def benchmark_table(results: "BenchmarkResults", suite: str, metric: str) -> Table:
    """Return a row for each method of a suite, the best average first."""
    info = METRICS[metric]
    methods = results.ranked(suite, metric)
    if not methods:
        failed = results.suites[suite].failed
        return Table(
            f"{suite}: no method could be fitted.",
            (), (), tuple(f"{name} failed: {reason}" for name, reason in failed.items()),
        )  # fmt: skip
    averages = [results.average(suite, m.name, metric) for m in methods]
    gaps = [results.difference(suite, m.name, methods[0].name, metric) for m in methods[1:]]
    columns = [
        (Column("method", is_number=False), [Cell(m.name) for m in methods]),
        (Column(f"average {info.title}"), [_cell(info, a, interval=True) for a in averages]),
        (Column("to best"), [_gap_cell(info, gap) for gap in (None, *gaps)]),
    ]
    if any(a.floor is not None for a in averages):
        columns += [
            (Column("excess", priority=8), [number(a.excess) for a in averages]),
            (Column("noise floor", priority=3), [number(a.floor) for a in averages]),
        ]
    for i, condition in enumerate(results.conditions(suite)):
        column = Column(condition, priority=0 if condition in ("0", "5", "source") else 1)
        cells = [number(a.conditions[i], percent=info.is_percent) for a in averages]
        columns.append((column, cells))
    for other in (METRICS[name] for name in results.metrics):
        if other.needs != "ood" and other.name not in (metric, "mean_confidence"):
            found = [results.average(suite, m.name, other.name) for m in methods]
            column = Column(f"average {other.title}", priority=7)
            columns.append((column, [_cell(other, average) for average in found]))
    for split in results.ood_splits(suite):
        for name, title in _OOD_COLUMNS.items():
            estimates = [results.estimate(suite, m.name, split, name) for m in methods]
            if any(estimates):
                column = Column(f"{title} {split}", priority=9)
                columns.append((column, [_cell(METRICS[name], e) for e in estimates]))
    columns.append((replace(_DATA_USED, priority=10), [Cell(str(m.information)) for m in methods]))
    return Table.of(suite, columns, _benchmark_notes(results, suite, metric))


def _benchmark_notes(results: "BenchmarkResults", suite: str, metric: str) -> list[str]:
    info, found = METRICS[metric], results.suites[suite]
    unit = " in per cent" if info.is_percent else ""
    over = "the source and of each shift"
    if results.has_severities(suite):
        over = "the source (0) and the means over corruptions at severities 1 to 5"
    notes = [f"{info.title}{unit}; average: the mean of {over}. {FLOOR}"]
    if found.n_bootstrap:
        notes.append(
            f"Intervals: {100 * found.level:g} %, bootstrap over images; those of the ECE are"
            " corrected for its upward bias. To best: paired difference to the first method; n.s.:"
            " its interval contains 0."
        )
    average = results.average(suite, results.ranked(suite, metric)[0].name, metric)
    if average.excess is not None and average.excess < average.value / 2:
        notes.append(
            "More than half of the best average is noise floor: the splits have few samples."
            " Compare the excess, or use more samples."
        )
    if f"{found.ood_set}-test" in results.ood_splits(suite):
        notes.append(
            f"{found.ood_set}-test: other samples of the set that methods were fitted with."
        )
    notes += [f"{name} failed: {reason}" for name, reason in found.failed.items()]
    skipped = {k: v for k, v in results.skipped.items() if k.startswith(f"{suite}: ")}
    return notes + [f"Skipped {name}: {reason}" for name, reason in skipped.items()]
