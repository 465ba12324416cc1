"""The csv of context_many.py as Markdown tables; docs/make.py puts them into the docs."""

from pathlib import Path

import context_belief_tables
from context_tables import find, markdown

CSV = Path(__file__).with_name("context_many.csv")
CLASSES = ("100", "1000")


def accuracy() -> str:
    """Return the error of the accuracy in points: windows x methods, 100 / 1,000 classes."""
    return context_belief_tables.accuracy(context_belief_tables.read(CSV), CLASSES)


def slopes() -> str:
    """Return what was fitted, on all networks and without each, beside what is shipped."""
    mine = find(context_belief_tables.read(CSV), part="fit")
    names = list(dict.fromkeys(row["metric"] for row in mine))
    lines = []
    for k in CLASSES:
        for label in dict.fromkeys(row["method"] for row in find(mine, classes=k)):
            values = {r["metric"]: r["value"] for r in find(mine, classes=k, method=label)}
            lines.append([label, k, *(f"{float(values[name]):.2f}" for name in names)])
    return markdown(["slopes", "classes", *(name.replace("_", " ") for name in names)], lines, 1)
