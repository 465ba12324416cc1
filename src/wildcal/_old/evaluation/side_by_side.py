"""Several evaluations of the same rows, side by side: a table and a csv."""

from collections.abc import Mapping

from wildcal._old.evaluation.views import Evaluation
from wildcal._old.metrics.registry import METRICS
from wildcal._old.tables import Cell, Column, Table, csv, number, ranked

_COLUMNS = ("method", "preserves_accuracy", "metric", "value", "low", "high")


def side_by_side(results: Mapping[str, Evaluation], kept: Mapping[str, bool]) -> Table:
    """Return a column for each evaluation, a row for each metric, the best of each marked.

    Parameters
    ----------
    kept
        Whether each method always keeps the class of the largest logit.
    """
    first = next(iter(results.values()))
    rows = []
    if not all(kept.values()):
        said = (Cell("yes" if kept[name] else "no") for name in results)
        rows.append((Cell("class always kept"), *said))
    for name, metric in METRICS.items():
        found = [r.estimates.get(name) for r in results.values()]
        if not any(found):
            continue
        cells = [
            number(e.value if e else None, e.interval if e else None, percent=metric.percent)
            for e in found
        ]
        better = metric.better if len(cells) > 1 else None
        rows.append((Cell(metric.title), *ranked(cells, better)))
    columns = (Column("metric", is_number=False), *map(Column, results))
    return Table(first.title, columns, tuple(rows), tuple(first.notes()))


def side_by_side_csv(results: Mapping[str, Evaluation], kept: Mapping[str, bool]) -> str:
    """Return a line for each method and metric, numbers in full precision."""
    return csv.render(
        _COLUMNS,
        [
            [name, kept[name], metric, e.value, e.low, e.high]
            for name, result in results.items()
            for metric, e in result.estimates.items()
        ],
    )
