"""The csv of context_many.py as Markdown tables; docs/make.py puts them into the docs."""

import csv
from collections.abc import Sequence
from pathlib import Path

from context_tables import Row, find, markdown

CSV = Path(__file__).with_name("context_many.csv")
CLASSES = ("100", "1000")


def read() -> list[Row]:
    """Return the rows of the csv."""
    with CSV.open(newline="") as file:
        return list(csv.DictReader(file))


def accuracy(rows: Sequence[Row]) -> str:
    """Return the error of the accuracy in points: windows x methods, 100 / 1,000 classes."""
    mine = find(rows, part="accuracy")
    methods = list(dict.fromkeys(row["method"] for row in mine))
    lines = []
    for shifts in dict.fromkeys(row["shifts"] for row in mine):
        for regime in dict.fromkeys(row["regime"] for row in find(mine, shifts=shifts)):
            at = find(mine, shifts=shifts, regime=regime)
            # The regimes of clean rows say so themselves.
            what = regime if regime.startswith(shifts) else f"{shifts}, {regime}"
            lines.append([what, *(_cell(find(at, method=method)) for method in methods)])
    shown = [f"`{m}`" if m.startswith("match") else m for m in methods]
    return markdown(["windows", *shown], lines, 1)


def slopes(rows: Sequence[Row]) -> str:
    """Return what was fitted, on all networks and without each, beside what is shipped."""
    mine = find(rows, part="fit")
    names = list(dict.fromkeys(row["metric"] for row in mine))
    lines = []
    for k in CLASSES:
        for label in dict.fromkeys(row["method"] for row in find(mine, classes=k)):
            values = {r["metric"]: r["value"] for r in find(mine, classes=k, method=label)}
            lines.append([label, k, *(f"{float(values[name]):.2f}" for name in names)])
    return markdown(["slopes", "classes", *(name.replace("_", " ") for name in names)], lines, 1)


def _cell(rows: Sequence[Row]) -> str:
    """Return percents with 100 / 1,000 classes; a dash where there are no such windows."""
    values = {row["classes"]: f"{100 * float(row['value']):.2f}" for row in rows}
    return " / ".join(values.get(k, "–") for k in CLASSES)
