"""Results as tables."""

from typing import TYPE_CHECKING, Final

from wildcal.metrics import METRICS, Estimate, Metric
from wildcal.tables import Cell, Column, Table, number, with_ranks

if TYPE_CHECKING:
    from wildcal.evaluation.benchmark_results import BenchmarkResults
    from wildcal.evaluation.results import (
        Comparison,
        Evaluation,
        MethodResult,
        ModelComparison,
    )

UNITS: Final = "In per cent, except scores (NLL, Brier), slope, intercept and z."
FLOOR: Final = "Noise floor: the expected value of a perfectly calibrated model on these samples."

_COMPARED: Final = (
    *("nll", "ece", "excess_ece", "binary_ece", "accuracy", "brier_score", "top_label_brier"),
    *("ood_auroc", "ood_mean_confidence"),
)
"""Metrics that a comparison shows, in this order."""
_OOD_COLUMNS: Final = {"ood_mean_confidence": "confidence on", "ood_auroc": "AUROC of"}
"""Metrics of OOD splits that a benchmark shows."""
_PRIORITY: Final = {"excess_ece": 2, "brier_score": 4, "top_label_brier": 4, "ood_auroc": 3,
                    "ood_mean_confidence": 4}  # fmt: skip


def evaluation_table(evaluation: "Evaluation") -> Table:
    """Return all metrics of an evaluation."""
    level = f"{100 * evaluation.level:g} % interval"
    columns = [Column("metric", is_number=False), Column("value")]
    columns += [Column(level)] if evaluation.n_bootstrap else []
    columns.append(Column("noise floor"))
    rows = []
    for name, estimate in evaluation.estimates.items():
        metric = METRICS[name]
        row = [Cell(metric.title), number(estimate.value, percent=metric.is_percent)]
        if evaluation.n_bootstrap:
            row.append(_interval_cell(estimate, percent=metric.is_percent))
        row.append(number(estimate.floor, percent=metric.is_percent))
        rows.append(tuple(row))
        if name == "accuracy" and evaluation.uncalibrated_accuracy is not None:
            more = [Cell("accuracy, uncalibrated"), number(evaluation.uncalibrated_accuracy)]
            rows.append((*more, *[Cell("")] * (len(columns) - 2)))
    notes = [UNITS, FLOOR]
    if evaluation.n_bootstrap:
        notes.append(
            f"Intervals: bootstrap with {evaluation.n_bootstrap} replicates. The interval of excess"
            " ECE is that of the calibration error without its upward bias on finite samples."
        )
    ood = f", {evaluation.n_ood:,} OOD samples" if evaluation.n_ood else ""
    title = f"{evaluation.n_samples:,} samples{ood}, {evaluation.n_bins} bins"
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def group_table(evaluation: "Evaluation") -> Table:
    """Return a row for each group, the highest excess ECE first."""
    names = ("accuracy", "mean_confidence", "nll", "ece", "excess_ece", "binary_ece")
    shown = [n for n in names if any(n in e.estimates for e in evaluation.groups.values())]
    groups = list(evaluation.groups.items())
    if "excess_ece" in shown:
        groups.sort(key=lambda item: -item[1]["excess_ece"].value)
    columns = [Column("group", is_number=False), Column("samples")]
    for name in shown:
        columns.append(Column(METRICS[name].title, priority=0 if "ece" in name else 1))
        columns += [Column("noise floor", priority=2)] if name == "ece" else []
    rows = []
    for group, e in groups:
        row = [Cell(group), Cell(f"{e.n_samples:,}", e.n_samples)]
        for name in shown:
            estimate = e.estimates.get(name)
            interval = estimate.interval if estimate and name == "excess_ece" else None
            value = estimate.value if estimate else None
            row.append(number(value, interval, percent=METRICS[name].is_percent))
            row += [number(estimate.floor if estimate else None)] if name == "ece" else []
        rows.append(tuple(row))
    return Table("By group", tuple(columns), tuple(rows), (UNITS,))


def _interval_cell(estimate: Estimate, *, percent: bool) -> Cell:
    """Return the interval; that of an error with a noise floor stands beside its excess."""
    if estimate.interval is None or estimate.floor is not None:
        return Cell("")
    low, high = (number(end, percent=percent).text for end in estimate.interval)
    return Cell(f"{low} to {high}")


def comparison_table(comparison: "Comparison") -> Table:
    """Return a row for each method, best first."""
    failed = [f"{name} failed: {reason}" for name, reason in comparison.failed.items()]
    if not comparison.methods:
        return Table("No method could be fitted.", (), (), tuple(failed))
    first = comparison.best.evaluation
    metric = METRICS[comparison.sort]
    shown = [comparison.sort, *(n for n in _COMPARED if n != comparison.sort)]
    shown = [name for name in shown if name in first]
    columns = [Column("method", is_number=False), Column(metric.title), Column("to best")]
    for name in shown[1:]:
        columns.append(Column(METRICS[name].title, priority=_PRIORITY.get(name, 1)))
        columns += [Column("noise floor", priority=2)] if name == "ece" else []
    columns += [
        Column("accuracy preserved", is_number=False, priority=3),
        Column("fit (s)", priority=6),
        Column("data used", is_number=False, priority=5),
    ]
    values = {name: _ranked_column(comparison, name) for name in shown}
    rows = []
    for i, method in enumerate(comparison.methods):
        row = [Cell(method.name), values[shown[0]][i], _difference_cell(method, metric)]
        for name in shown[1:]:
            row.append(values[name][i])
            if name == "ece":
                row.append(number(method.evaluation[name].floor))
        kept = "yes" if method.preserves_accuracy else f"no ({method.changed:.1%} changed)"
        row += [
            Cell(kept),
            Cell(f"{method.fit_seconds:.2f}", method.fit_seconds),
            Cell(str(method.information)),
        ]
        rows.append(tuple(row))
    notes = [
        f"Sorted by {metric.title}. {UNITS} {FLOOR}",
        "To best: paired difference to the first method on the same bootstrap replicates; n.s.: its"
        f" {100 * first.level:g} % interval contains 0.",
    ]
    ood = f", {first.n_ood:,} OOD samples" if first.n_ood else ""
    title = f"{first.n_samples:,} test samples{ood}"
    return Table(title, tuple(columns), tuple(rows), (*notes, *failed))


def model_table(comparison: "ModelComparison") -> Table:
    """Return a row for each metric: values of all models, differences to the first."""
    names = list(comparison.evaluations)
    first = comparison.evaluations[names[0]]
    columns = [Column("metric", is_number=False), Column(names[0])]
    for name in names[1:]:
        columns += [Column(name), Column(f"{name} - {names[0]}"), Column("verdict", False)]
    rows = []
    for metric_name, estimate in first.estimates.items():
        metric = METRICS[metric_name]
        row = [Cell(metric.title), number(estimate.value, percent=metric.is_percent)]
        for name in names[1:]:
            gap = comparison.differences[name].get(metric_name)
            other = comparison.evaluations[name].estimates.get(metric_name)
            interval = None
            if gap is not None and gap.low is not None and gap.high is not None:
                interval = (gap.low, gap.high)
            row.append(number(other.value if other else None, percent=metric.is_percent))
            row.append(
                number(gap.value if gap else None, interval, percent=metric.is_percent, sign=True)
            )
            row.append(Cell(comparison.verdicts[name].get(metric_name, "")))
        rows.append(tuple(row))
    level = f"{100 * first.level:g} %"
    notes = [UNITS, f"Differences with paired {level} intervals on the same bootstrap replicates."]
    if comparison.margin is not None:
        notes.append(f"Equivalent: the interval lies within {comparison.margin:g}.")
    return Table(f"{first.n_samples:,} samples", tuple(columns), tuple(rows), tuple(notes))


def _ranked_column(comparison: "Comparison", name: str) -> list[Cell]:
    """Return one metric of all methods, the best marked."""
    metric = METRICS[name]
    cells = []
    for method in comparison.methods:
        estimate = method.evaluation.estimates.get(name)
        interval = estimate.interval if estimate and name == comparison.sort else None
        value = estimate.value if estimate else None
        cells.append(number(value, interval, percent=metric.is_percent))
    return with_ranks(cells, metric.better)


def _difference_cell(method: "MethodResult", metric: Metric) -> Cell:
    gap = method.difference
    if gap is None:
        return Cell("best")
    note = "" if gap.low is None or gap.is_significant else "n.s."
    return number(gap.value, percent=metric.is_percent, sign=True, note=note)


def benchmark_table(results: "BenchmarkResults", suite: str, metric: str) -> Table:
    """Return a row for each method of a suite, the best average first."""
    info = METRICS[metric]
    order = results.ranked(suite, metric)
    averages = {m.name: results.average(suite, m.name, metric) for m in order}
    floored = any(a.floor is not None for a in averages.values())
    conditions = results.conditions(suite)
    more = [
        name
        for name in results.metrics
        if name != metric and METRICS[name].needs != "ood" and name != "mean_confidence"
    ]
    sets = [
        (split, name)
        for split in results.ood_splits(suite)
        for name in _OOD_COLUMNS
        if results.estimate(suite, order[0].name, split, name) is not None
    ]
    columns = [
        Column("method", is_number=False),
        Column(f"average {info.title}"),
        Column("to best"),
        *([Column("excess", priority=8), Column("noise floor", priority=3)] if floored else []),
        *(Column(c, priority=0 if c in ("0", "5", "source") else 1) for c in conditions),
        *(Column(f"average {METRICS[name].title}", priority=7) for name in more),
        *(Column(f"{_OOD_COLUMNS[name]} {split}", priority=9) for split, name in sets),
        Column("data used", is_number=False, priority=10),
    ]
    rows = []
    for method in order:
        average = averages[method.name]
        row = [
            Cell(method.name),
            number(average.value, average.interval, percent=info.is_percent),
            _average_difference(results, suite, method.name, order[0].name, metric),
        ]
        if floored:
            row += [number(average.excess), number(average.floor)]
        row += [number(value, percent=info.is_percent) for value in average.conditions]
        for name in more:
            value = results.average(suite, method.name, name).value
            row.append(number(value, percent=METRICS[name].is_percent))
        for split, name in sets:
            found = results.estimate(suite, method.name, split, name)
            row.append(number(found.value if found else None))
        rows.append(tuple([*row, Cell(str(method.information))]))
    return Table(
        suite, tuple(columns), tuple(rows), tuple(_benchmark_notes(results, suite, metric))
    )


def _average_difference(
    results: "BenchmarkResults", suite: str, method: str, best: str, metric: str
) -> Cell:
    if method == best:
        return Cell("best")
    gap = results.difference(suite, method, best, metric)
    note = "" if gap.low is None or gap.is_significant else "n.s."
    return number(gap.value, percent=METRICS[metric].is_percent, sign=True, note=note)


def _benchmark_notes(results: "BenchmarkResults", suite: str, metric: str) -> list[str]:
    info, found = METRICS[metric], results.suites[suite]
    unit = " in per cent" if info.is_percent else ""
    over = "the source and of each shift"
    if results.has_severities(suite):
        over = "the source (0) and the means over corruptions at severities 1 to 5"
    notes = [f"{info.title}{unit}; average: the mean of {over}. {FLOOR}"]
    if found.n_bootstrap:
        notes.append(
            f"Intervals: {100 * found.level:g} %, bootstrap over images. To best: paired difference"
            " to the first method; n.s.: its interval contains 0."
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
