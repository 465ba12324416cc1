"""Results as tables."""

from typing import TYPE_CHECKING, Final

from wildcal.metrics import METRICS, Estimate
from wildcal.tables import Cell, Column, Table, number

if TYPE_CHECKING:
    from wildcal.evaluation.results import Evaluation

UNITS: Final = "In per cent, except scores (NLL, Brier), slope, intercept and z."
FLOOR: Final = "Noise floor: the expected value of a perfectly calibrated model on these samples."


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
