"""The one table of methods on a suite: what notebooks, terminals, reports and docs show."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from wildcal._old.evaluation.behind import EXPLAINED
from wildcal._old.evaluation.results import CLEAN, LEVELS, Average, Results
from wildcal._old.metrics.interval import HOLDS_ITS_VALUE
from wildcal._old.metrics.registry import METRICS
from wildcal._old.tables import Cell, Column, Table, number
from wildcal._old.tables.model import small_digits

_BARS = "▁▂▃▄▅▆▇█"
_OF_OTHERS = {"mean_confidence": "confidence on", "ood_auroc": "AUROC of"}
"""What is shown of a set of other classes."""


def suite_table(
    results: Results,
    suite: str,
    metric: str | None = None,
    *,
    called: Callable[[str], str] = str,
    ends: bool = False,
) -> Table:
    """Return a row for each method, the best average first.

    Parameters
    ----------
    metric
        What methods are ranked by, by default the results' own.
    called
        What to call a method.
    ends
        Whether differences to the best show their intervals.
    """
    metric = metric or results.primary
    order = results.ranked(suite, metric)
    averages = {m.name: results.average(suite, m.name, metric) for m in order}
    more = [m for m in results.metrics if m != metric and _is_averaged(m)]
    sets = [
        (split, name)
        for split in results.ood_splits(suite)
        for name in _OF_OTHERS
        if results.select(suite=suite, split=split, metric=name)
    ]
    highest = max((v for a in averages.values() for v in a.levels if not math.isnan(v)), default=0)
    percent = METRICS[metric].percent
    rows = []
    for method in order:
        average = averages[method.name]
        behind = results.behind(suite, method.name, metric, best=order[0].name)
        cells = [
            Cell(called(method.name)),
            Cell(method.knew.words()),
            number(average.value, average.interval, percent=percent),
            behind.cell(percent=percent, ends=ends),
            *_floor_cells(average, metric),
        ]
        if results.has_levels(suite):
            cells += _level_cells(average, metric, highest)
        else:
            cells += _named_cells(results, suite, method.name, metric)
        cells += [_other_cell(results, suite, method.name, name) for name in more]
        for split, name in sets:
            estimate = results.estimate(suite, method.name, split, name)
            cells.append(number(estimate.value if estimate else None))
        rows.append(tuple(cells))
    failed = [f"{name} failed: {reason}" for name, reason in results.suites[suite].failed.items()]
    is_known = any(not math.isnan(a.value) for a in averages.values())
    return Table(
        suite,
        _columns(results, suite, metric, more, sets),
        tuple(rows),
        (*caption(results, suite, metric), *failed),
        0 if is_known else None,
    )


def _columns(
    results: Results, suite: str, metric: str, more: Sequence[str], sets: Sequence[tuple[str, str]]
) -> tuple[Column, ...]:
    info = METRICS[metric]
    floors = (Column("beyond the floor", spare=30), Column("noise floor", spare=6))
    return (
        Column("method", is_number=False),
        Column("knew", is_number=False, spare=90),
        Column(f"average {info.title.strip()}"),
        Column("behind"),
        *(floors if info.floored else ()),
        *_condition_columns(results, suite, info.floored),
        *(Column(f"average {METRICS[m].title.strip()}", spare=20 + i) for i, m in enumerate(more)),
        *(Column(f"{_OF_OTHERS[name]} {split}", spare=50) for split, name in sets),
    )


def _floor_cells(average: Average, metric: str) -> list[Cell]:
    info = METRICS[metric]
    shown = (average.excess, average.floor) if info.floored else ()
    return [number(value, percent=info.percent) for value in shown]


def _level_cells(average: Average, metric: str, highest: float) -> list[Cell]:
    """Return the value at each severity, and a small bar chart of them."""
    cells = [number(value, percent=METRICS[metric].percent) for value in average.levels]
    return [*cells, Cell(_spark(average.levels, highest))]


def _other_cell(results: Results, suite: str, method: str, metric: str) -> Cell:
    """Return the average of a metric that the table is not ranked by."""
    average = results.average(suite, method, metric)
    # A mean over many classes is small, since most of their probabilities are.
    digits = small_digits([average.value]) if metric == "sce" else None
    percent = METRICS[metric].percent
    return number(average.value, average.interval, percent=percent, digits=digits)


def caption(results: Results, suite: str, metric: str | None = None) -> list[str]:
    """Return what has to be known about the numbers of a suite's table."""
    info = METRICS[metric or results.primary]
    which = "highest" if info.better == "higher" else "lowest"
    unit = "in percent" if info.percent else "not in percent"
    notes = [
        f"{info.title.strip()} {unit}: {_averaged_words(results, suite)}; the {which} first."
        " Noise floor: the average of a perfectly calibrated model, which more rows make smaller."
        " Knew: what the method used."
    ]
    notes += _mostly_chance(results, suite, metric or results.primary)
    drawn = results.suites[suite].replicates
    if drawn is not None:
        notes.append(
            f"In brackets: {100 * drawn.level:g} % bootstrap interval over rows."
            f" {HOLDS_ITS_VALUE} {EXPLAINED}"
        )
    ood = results.suites[suite].ood
    if ood is not None and f"{ood}-test" in results.ood_splits(suite):
        notes.append(f"{ood}-test: other rows of the set that methods were tuned with.")
    both = results.tuned_and_tested(suite)
    if both:
        notes.append(
            f"Methods that knew shifted sets were tuned on other rows under {', '.join(both)},"
            " which are in the average."
        )
    return notes


def _mostly_chance(results: Results, suite: str, metric: str) -> list[str]:
    """Return a warning if more than half of the best average is what chance makes of few rows."""
    ranked = results.ranked(suite, metric)
    averages = {m.name: results.average(suite, m.name, metric) for m in ranked}
    known = {name: a for name, a in averages.items() if not math.isnan(a.excess)}
    if not known:
        return []
    best, least = next(iter(known)), min(known, key=lambda name: known[name].excess)
    if known[best].excess > known[best].value / 2:
        return []
    other = "" if least == best else f", by which {least} is first,"
    return [
        "More than half of the best average is the noise floor, since cells have few rows: compare"
        f" what is beyond the floor{other} or make the suite with more rows."
    ]


def _condition_columns(results: Results, suite: str, floored: bool) -> list[Column]:
    """Return a column for each severity, or for each named shift one and its noise floor."""
    names = results.conditions(suite)
    if results.has_levels(suite):
        spare = {"1": 2, "2": 3, "4": 4, "3": 5}
        return [*(Column(n, spare=spare.get(n)) for n in names), Column("by severity", spare=1)]
    pairs = [(Column(n), Column(f"floor of {n}", spare=i)) for i, n in enumerate(names, start=1)]
    return [column for pair in pairs for column in (pair if floored else pair[:1])]


def _named_cells(results: Results, suite: str, method: str, metric: str) -> list[Cell]:
    """Return a method's value with its interval, and the noise floor, of clean rows and shifts."""
    info = METRICS[metric]
    found = {r.split: r.estimate for r in results.select(suite=suite, method=method, metric=metric)}
    clean = results.select(suite=suite, method=method, metric=metric, shift="none")
    if len(clean) == 1:
        found["clean"] = clean[0].estimate
    cells = []
    for name in results.conditions(suite):
        e = found.get(name)
        cells.append(
            number(e.value if e else None, e.interval if e else None, percent=info.percent)
        )
        if info.floored:
            cells.append(number(e.floor if e else None, percent=info.percent))
    return cells


def _averaged_words(results: Results, suite: str) -> str:
    if results.has_levels(suite):
        return (
            f"of clean rows ({CLEAN}), the mean over corruption types at severity {LEVELS[0]} to"
            f" {LEVELS[-1]}, and the average of the six"
        )
    return "of clean rows, of each shift, and the average of these"


def left_out(results: Results) -> list[str]:
    """Return what could not be used, in sentences."""
    notes = [f"{name} was left out: {reason}" for name, reason in results.skipped.items()]
    return notes if results.suites else ["No suite was measured.", *notes]


def _is_averaged(metric: str) -> bool:
    info = METRICS[metric]
    return info.better is not None and info.needs != "ood" and metric != "accuracy"


def _spark(values: Sequence[float], highest: float) -> str:
    """Return a small bar chart; the bars of all methods have one scale."""
    scale = (len(_BARS) - 1) / highest if highest else 0.0
    return "".join(" " if np.isnan(v) else _BARS[max(0, round(v * scale))] for v in values)
