"""The csv of accuracy.py as Markdown tables; docs/make.py puts them into the docs."""

import csv
from collections.abc import Sequence
from pathlib import Path

from wildcal.accuracy import ESTIMATORS

CSV = Path(__file__).with_name("accuracy.csv")
ALL = "all networks"
Row = dict[str, str]
SHORT = {
    "whole": "1,000 rows",
    "512 rows": "512",
    "128 rows": "128",
    "32 rows": "32",
    "256 rows, Dirichlet(1)": "256, Dirichlet(1)",
    "256 rows, Dirichlet(0.3)": "256, Dirichlet(0.3)",
    "256 rows, three classes": "256, three classes",
}


def read() -> list[Row]:
    """Return the rows of the csv."""
    with CSV.open(newline="") as file:
        return list(csv.DictReader(file))


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]], words: int) -> str:
    """Return a table whose first columns are words."""
    rule = "---|" * words + "--:|" * (len(header) - words)
    rows = [f"| {' | '.join(line)} |" for line in (header, *lines)]
    return "\n".join([rows[0], f"|{rule}", *rows[1:]])


def estimators() -> str:
    """Return what every estimator promises."""
    lines = []
    for name, kind in ESTIMATORS.items():
        knows = "environments" if kind.needs_environments else "clean labels"
        if kind.learns_from_environments and not kind.needs_environments:
            knows += ", learns from environments"
        if kind.needs_second:
            knows += ", a second network"
        mix = "clean" if kind.assumes_clean_class_mix else "any"
        adds = "yes" if kind.mergeable else "no"
        rows = str(kind.smallest_window)
        lines.append([f"`{name}`", kind.title, knows, mix, rows, adds, kind.reference])
    header = ["name", "method", "needs", "class mix", "least rows", "states add", "reference"]
    return markdown(header, lines, 2)


def whole(rows: Sequence[Row]) -> str:
    """Return every number for whole splits, best first, and without the temperature."""
    found = _of(rows, "environments", "whole")
    clean, unscaled = _of(rows, "clean labels", "whole"), _of(rows, "unscaled", "whole")
    lines = []
    for name in sorted(found, key=lambda n: float(found[n]["mae"])):
        row = found[name]
        numbers = [_points(row[key]) for key in ("mae", "worst", "bias")]
        plain = ESTIMATORS[name]
        raw = (
            _points(unscaled[name]["mae"]) if name in unscaled and hasattr(plain, "scaled") else ""
        )
        held = [_percent(row["coverage"]), _points(row["width"])]
        alone = [_percent(clean[name]["coverage"]) if name in clean else ""]
        knows = "environments" if plain.learns_from_environments else "clean labels"
        rank = f"{float(row['spearman']):.2f}"
        lines.append([f"`{name}`", knows, *numbers, rank, raw, *held, *alone])
    header = ["estimator", "knows", "off by", "worst", "bias", "rank correlation",
              "off by, T = 1", "interval held", "its width", "held, clean labels"]  # fmt: skip
    return markdown(header, lines, 2)


def windows(rows: Sequence[Row], key: str = "mae", part: str = "environments") -> str:
    """Return one number of every estimator by size and class mix, the best of each in bold."""
    tables = {setting: _of(rows, part, setting) for setting in SHORT}
    names = sorted(tables["whole"], key=lambda n: float(tables["whole"][n]["mae"]))
    best = {s: min(float(row["mae"]) for row in table.values()) for s, table in tables.items()}
    lines = []
    for name in names:
        cells = []
        for setting, table in tables.items():
            row = table[name]
            text = _points(row[key]) if key == "mae" else _percent(row[key])
            bold = key == "mae" and float(row["mae"]) == best[setting]
            cells.append(f"**{text}**" if bold else text)
        lines.append([f"`{name}`", *cells])
    return markdown(["estimator", *SHORT.values()], lines, 1)


def warned(rows: Sequence[Row]) -> str:
    """Return how often the class mix was doubted, by setting."""
    row = {s: _of(rows, "environments", s)["cot"] for s in SHORT}
    cells = [_percent(row[setting]["warned"]) for setting in SHORT]
    return markdown(["windows", *SHORT.values()], [["doubted, %", *cells]], 1)


def _of(rows: Sequence[Row], part: str, setting: str) -> dict[str, Row]:
    wanted = {"part": part, "setting": setting, "network": ALL}
    return {row["estimator"]: row for row in rows if all(row[k] == v for k, v in wanted.items())}


def _points(text: str) -> str:
    return f"{100 * float(text):.2f}"


def _percent(text: str) -> str:
    return f"{100 * float(text):.0f}"
