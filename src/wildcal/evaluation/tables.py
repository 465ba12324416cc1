"""Columns and cells that the tables of several results share."""

from collections.abc import Mapping, Sequence
from typing import Final

from wildcal.metrics import METRICS, Difference, Estimate, Metric
from wildcal.tables import Cell, Column, number, with_ranks

UNITS: Final = "In per cent, except scores (NLL, Brier), slope, intercept and z."
FLOOR: Final = "Noise floor: the expected value of a perfectly calibrated model on these samples."
DATA_USED: Final = Column("data used", is_number=False, priority=5)


def text_column(head: str, texts: Sequence[str]) -> tuple[Column, list[Cell]]:
    """Return a column of text that is always shown."""
    return Column(head, is_number=False), [Cell(text) for text in texts]


def metric_columns(
    name: str,
    estimates: Sequence[Estimate | None],
    *,
    priority: int,
    interval: bool = False,
    ranked: bool = False,
) -> list[tuple[Column, list[Cell]]]:
    """Return the column of a metric; for the ECE also that of its noise floor."""
    metric = METRICS[name]
    cells = [estimate_cell(metric, estimate, interval=interval) for estimate in estimates]
    if ranked:
        cells = with_ranks(cells, metric.better)
    columns = [(Column(metric.title, priority=priority), cells)]
    if name == "ece":
        floors = [number(estimate.floor if estimate else None) for estimate in estimates]
        columns.append((Column("noise floor", priority=2), floors))
    return columns


def estimate_cell(
    metric: Metric, estimate: Estimate | None, *, interval: bool = False, sign: bool = False
) -> Cell:
    """Return the cell of an estimate of a metric, "-" without one."""
    if estimate is None:
        return number(None)
    shown = estimate.interval if interval else None
    return number(estimate.value, shown, percent=metric.is_percent, sign=sign)


def difference_cell(metric: Metric, difference: Difference | None) -> Cell:
    """Return the cell of a difference to the best method; None is the best."""
    if difference is None:
        return Cell("best")
    note = "" if difference.low is None or difference.is_significant else "n.s."
    return number(difference.value, percent=metric.is_percent, sign=True, note=note)


def failure_notes(failed: Mapping[str, str]) -> list[str]:
    """Return a note for each method that could not be fitted."""
    return [f"{name} failed: {reason}" for name, reason in failed.items()]
