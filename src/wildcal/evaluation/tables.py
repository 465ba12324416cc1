"""Columns and notes that the tables of several results share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from wildcal.metrics import METRICS, Difference, Estimate, Metric
from wildcal.tables import Cell, Column, number, with_best

FLOOR: Final = "Noise floor: the expected value of a perfectly calibrated model on these samples."

Cells: TypeAlias = tuple[Column, list[Cell]]
"""A column with its cells."""


def units(metrics: Iterable[str]) -> str:
    """Return a note on the units of metrics."""
    numbers = [name for name in metrics if not METRICS[name].is_percent]
    more = ", slope, intercept and z" if any(METRICS[n].needs == "binary" for n in numbers) else ""
    return f"In per cent, except scores (NLL, Brier){more}."


def text_column(head: str, texts: Sequence[object], priority: int = 0) -> Cells:
    """Return a column of text."""
    return Column(head, is_number=False, priority=priority), [Cell(str(text)) for text in texts]


def estimate_column(
    head: str,
    metrics: Metric | Sequence[Metric],
    estimates: Sequence[Estimate | None],
    *,
    priority: int = 0,
    interval: bool = False,
    sign: bool = False,
) -> Cells:
    """Return a column of estimates of one metric, or of one metric for each row."""
    each = [metrics] * len(estimates) if isinstance(metrics, Metric) else metrics
    cells = []
    for metric, e in zip(each, estimates, strict=True):
        value, ends = (None, None) if e is None else (e.value, e.interval if interval else None)
        cells.append(number(value, ends, percent=metric.is_percent, sign=sign))
    return Column(head, priority=priority), cells


def metric_columns(
    name: str, estimates: Sequence[Estimate | None], *, ranked: bool = False, **options: Any
) -> list[Cells]:
    """Return the column of a metric; for the ECE also that of its noise floor."""
    metric = METRICS[name]
    column, cells = estimate_column(metric.title, metric, estimates, **options)
    columns = [(column, with_best(cells, metric.better) if ranked else cells)]
    if name == "ece":
        floors = [number(estimate.floor if estimate else None) for estimate in estimates]
        columns.append((Column("noise floor", priority=2), floors))
    return columns


def difference_column(metric: Metric, differences: Sequence[Difference]) -> Cells:
    """Return the differences of all methods but the first one to the first one."""
    cells = [Cell("best")]
    for d in differences:
        note = "" if d.low is None or d.is_significant else "n.s."
        cells.append(number(d.value, percent=metric.is_percent, sign=True, note=note))
    return Column("to best"), cells


def failure_notes(failed: Mapping[str, str]) -> tuple[str, ...]:
    """Return a note for each method that could not be fitted."""
    return tuple(f"{name} failed: {reason}" for name, reason in failed.items())
