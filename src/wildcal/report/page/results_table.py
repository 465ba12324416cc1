"""The page's table: what `wildcal compare` prints, sortable."""

import math
from collections.abc import Iterable, Sequence

from wildcal.evaluation.protocol import Average, FittedMethod, Results
from wildcal.evaluation.protocol.tuning import ood_set
from wildcal.report.page.marks import shown
from wildcal.report.page.markup import tag, words
from wildcal.report.tables import ABSENT, percent


def results_table(results: Results, suite: str, order: Sequence[FittedMethod]) -> str:
    """Return a row for each method in the order given, numbers in percent.

    Every cell carries its number in full precision, a fraction, as `data-value`.
    """
    sets = semantic_sets(results, suite)
    heads = ["method", "knew", "average ECE", "behind the best", "noise floor"]
    heads += ["clean", *(f"severity {level}" for level in range(1, 6))]
    heads += [f"{what} {ood_set(name)}" for name in sets for what in ("confidence on", "AUROC of")]
    rows = []
    for method in order:
        average = results.average(suite, method.name)
        cells = [
            _words(shown(method.name)),
            _words(method.knew.words()),
            _average(average),
            _behind(results, suite, method.name, order[0].name),
            _number(average.noise_floor),
            *(_number(level) for level in average.levels),
        ]
        for split in sets:
            for metric in ("mean_confidence", "ood_auroc"):
                cells.append(_number(_value(results, suite, method.name, split, metric)))
        style = "best" if method is order[0] else None
        rows.append(tag("tr", *cells, class_=style, data_method=method.name))
    return _sortable(heads, rows)


def _sortable(heads: Sequence[str], rows: Iterable[str]) -> str:
    """Return a table whose heads are buttons; the first two columns are words."""
    cells = [
        tag("th", tag("button", words(head), type="button"), scope="col",
            class_="left" if i < 2 else None)
        for i, head in enumerate(heads)
    ]  # fmt: skip
    table = tag(
        "table",
        tag("thead", tag("tr", *cells)),
        tag("tbody", *rows),
        class_="sortable",
    )
    return tag("div", table, class_="wide", tabindex=0, role="region", aria_label="table")


def semantic_sets(results: Results, suite: str) -> list[str]:
    """Return the semantic test sets that methods were measured on."""
    found = results.select(suite=suite, shift="semantic", metric="mean_confidence")
    return list(dict.fromkeys(record.split for record in found))


def _value(results: Results, suite: str, method: str, split: str, metric: str) -> float | None:
    try:
        return results.record(suite, method, split, metric).value
    except KeyError:  # no clean rows to tell the set from
        return None


def _words(text: str) -> str:
    return tag("td", words(text), class_="left", data_value=text)


def _number(value: float | None, more: str = "") -> str:
    if value is None or math.isnan(value):
        return tag("td", ABSENT, data_value="")
    return tag("td", words(percent(value)) + more, data_value=repr(value))


def _average(average: Average) -> str:
    if average.low is None or average.high is None:
        return _number(average.value)
    between = f"{percent(average.low)} to {percent(average.high)}"
    return _number(average.value, " " + tag("span", words(between), class_="interval-text"))


def _behind(results: Results, suite: str, method: str, best: str) -> str:
    """Return the paired difference to the best, and whether it may be chance."""
    average, first = results.average(suite, method), results.average(suite, best)
    gap = average.value - first.value
    more = ""
    if method != best and average.low is not None and first.low is not None:
        difference = results.difference(suite, method, best)
        chance = ", may be chance" if difference.low <= 0 else ""
        between = f"{percent(difference.low)} to {percent(difference.high)}{chance}"
        more = " " + tag("span", words(between), class_="interval-text")
    return _number(gap, more)
