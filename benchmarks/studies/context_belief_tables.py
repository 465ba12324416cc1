"""The csv of context_belief.py as a Markdown table; docs/make.py puts it into the docs."""

import csv
from collections.abc import Sequence
from pathlib import Path

from context_tables import Row, find, markdown

CSV = Path(__file__).with_name("context_belief.csv")
CLASSES = ("10", "100")


def read(path: Path = CSV) -> list[Row]:
    """Return the rows of a csv."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def accuracy(rows: Sequence[Row], classes: Sequence[str] = CLASSES) -> str:
    """Return the error of the accuracy in points: windows x methods, by number of classes."""
    mine = find(rows, part="accuracy")
    methods = list(dict.fromkeys(row["method"] for row in mine))
    lines = []
    for shifts in dict.fromkeys(row["shifts"] for row in mine):
        for regime in dict.fromkeys(row["regime"] for row in find(mine, shifts=shifts)):
            at = find(mine, shifts=shifts, regime=regime)
            # The regimes of clean rows say so themselves.
            what = regime if regime.startswith(shifts) else f"{shifts}, {regime}"
            cells = [_cell(find(at, method=method), classes) for method in methods]
            lines.append([what, *cells])
    shown = [f"`{m}`" if m.startswith("match") else m for m in methods]
    return markdown(["windows", *shown], lines, 1)


def scaling(rows: Sequence[Row]) -> str:
    """Return the excess ECE of the calibrator itself in percent, 10 / 100 classes."""
    mine = find(rows, part="scaling", metric="excess_ece")
    methods = list(dict.fromkeys(row["method"] for row in mine))
    lines = []
    for shifts in dict.fromkeys(row["shifts"] for row in mine):
        for regime in dict.fromkeys(row["regime"] for row in find(mine, shifts=shifts)):
            at = find(mine, shifts=shifts, regime=regime)
            cells = [_cell(find(at, method=method)) for method in methods]
            lines.append([f"{shifts}, {regime}", *cells])
    return markdown(["windows", *methods], lines, 1)


def numbers(rows: Sequence[Row]) -> str:
    """Return what was fitted, on all networks and without each, beside what is shipped."""
    mine = find(rows, part="fit")
    names = list(dict.fromkeys(row["metric"] for row in mine))
    lines = []
    for k in CLASSES:
        for label in dict.fromkeys(row["method"] for row in find(mine, classes=k)):
            if label.startswith("without") and k != CLASSES[0]:
                continue  # one network has a hundred classes; the others reach it by the belief
            values = {r["metric"]: r["value"] for r in find(mine, classes=k, method=label)}
            cells = [f"{float(values[n]):.2f}" if n in values else "" for n in names]
            lines.append([label, k, *cells])
    return markdown(["numbers", "classes", *(name.replace("_", " ") for name in names)], lines, 1)


def _cell(rows: Sequence[Row], classes: Sequence[str] = CLASSES) -> str:
    """Return percents by number of classes; a dash where there is nothing to tell."""
    values = {row["classes"]: f"{100 * float(row['value']):.2f}" for row in rows}
    return " / ".join(values.get(k, "–") for k in classes)
