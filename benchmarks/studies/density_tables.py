"""The csv of density.py as Markdown tables, for docs/density.md."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path

Row = dict[str, str]


def read() -> list[Row]:
    with (Path(__file__).parent / "density.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _names(rows: Iterable[Row], column: str) -> list[str]:
    return list(dict.fromkeys(row[column] for row in rows))


def _percent(text: str, sign: str = "") -> str:
    return f"{100 * float(text):{sign}.2f}"


def averages(rows: list[Row]) -> str:
    """Return the average ECE of every method, and what changed beside the same without."""
    suites = _names(rows, "suite")
    heads = [f"{suite} | with minus without" for suite in suites]
    lines = [f"| method | knew | {' | '.join(heads)} |", "|---|---|" + "--:|" * 2 * len(suites)]
    found = {(row["suite"], row["method"]): row for row in rows}
    for method in _names(rows, "method"):
        mine = [found.get((suite, method)) for suite in suites]
        cells: list[str] = []
        for row in mine:
            cells += ["", ""] if row is None else [_average(row), _difference(row)]
        # Networks differ in the number of layers, which docs/suites.md lists.
        used = next(re.sub(r" in \d+ layers", "", row["used"]) for row in mine if row is not None)
        shown = "uncalibrated" if method == "identity" else f"`{method}`"
        lines.append(f"| {shown} | {used} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _average(row: Row) -> str:
    value = float(row["average"])
    low, high = min(value, float(row["low"])), max(value, float(row["high"]))
    return f"{_percent(value)} ({_percent(low)} to {_percent(high)})"


def _difference(row: Row) -> str:
    if not row["beside"]:
        return ""
    value, low, high = (_percent(row[f"difference{end}"], "+") for end in ("", "_low", "_high"))
    text = f"{value} ({low} to {high})"
    sure = float(row["difference_low"]) > 0 or float(row["difference_high"]) < 0
    return f"**{text}**" if sure else text


def ends(rows: list[Row]) -> str:
    """Return clean ECE, ECE at severity 5 and mean confidence on Textures."""
    suites = _names(rows, "suite")
    columns = ("clean", "severity_5", "textures_confidence")
    heads = [f"{suite}: clean | severity 5 | Textures" for suite in suites]
    lines = [f"| method | {' | '.join(heads)} |", "|---|" + "--:|" * 3 * len(suites)]
    found = {(row["suite"], row["method"]): row for row in rows}
    for method in _names(rows, "method"):
        cells: list[str] = []
        for suite in suites:
            row = found.get((suite, method))
            cells += [""] * 3 if row is None else [_percent(row[column]) for column in columns]
        shown = "uncalibrated" if method == "identity" else f"`{method}`"
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines)
