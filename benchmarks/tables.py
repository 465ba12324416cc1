"""The csv files of benchmarks and studies as Markdown tables; docs/make.py puts them into pages."""

import csv
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from wildcal._old.accuracy import ESTIMATORS

HERE = Path(__file__).parent
Row = dict[str, str]


def read(name: str) -> list[Row]:
    """Return the rows of a csv below this folder."""
    with (HERE / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]], n_words: int = 1) -> str:
    """Return a table whose first columns are words and whose others are numbers."""
    rule = "---|" * n_words + "--:|" * (len(header) - n_words)
    rows = [f"| {' | '.join(line)} |" for line in (header, *lines)]
    return "\n".join([rows[0], f"|{rule}", *rows[1:]])


# Speed


def peers() -> str:
    """Return our time and that of every peer divided by it, for ten and for 1,000 classes."""
    rows = [r for r in read("peers") if r["rows"] == "50000" and r["classes"] in ("10", "1000")]
    lines = []
    for ours in (r for r in rows if r["who"] == "wildcal" and "200 times" not in r["job"]):
        others = [
            f"{r['who']} {float(r['faster']):.1f}"
            for r in rows
            if (r["job"], r["classes"]) == (ours["job"], ours["classes"])
            and r["who"] != "wildcal"
            and r["faster"]
        ]
        if others:
            classes, ms = f"{int(ours['classes']):,}", f"{float(ours['ms']):,.3g}"
            lines.append([ours["job"], ", ".join(others), classes, ms])
    return markdown(["job", "peers: their time / ours", "classes", "our ms"], lines, 2)


def corruptions() -> str:
    """Return how long each corruption takes, ours and that of the public package."""
    rows = read("corruptions")
    lines = [[f"`{row['type']}`", row["ms"], row["peer"], f"{row['faster']}x"] for row in rows]
    mean = statistics.geometric_mean(float(row["faster"]) for row in rows)
    header = ["corruption", "ms an image", "`imagecorruptions`, ms", "faster"]
    return markdown(header, [*lines, ["geometric mean", "", "", f"{mean:.1f}x"]])


def serving() -> str:
    """Return what a request costs the server."""
    lines = [
        [f"`{row['model']}`", row["form"], row["rows"], f"{int(row['cpu_us']):,}", row["share"]]
        for row in read("serve")
    ]
    return markdown(["model", "form", "rows", "µs of a processor", "share"], lines, 2)


# Accuracy without labels

SETTINGS = {
    "whole": "1,000 rows",
    "512 rows": "512",
    "128 rows": "128",
    "32 rows": "32",
    "256 rows, Dirichlet(1)": "256, Dirichlet(1)",
    "256 rows, Dirichlet(0.3)": "256, Dirichlet(0.3)",
    "256 rows, three classes": "256, three classes",
}


def estimators() -> str:
    """Return what every estimator of accuracy promises."""
    lines = []
    for name, kind in ESTIMATORS.items():
        knows = "clean labels"
        if kind.learns_from_environments:
            knows += ", learns from environments"
        if kind.needs_second:
            knows += ", a second network"
        mix = "clean" if kind.assumes_clean_class_mix else "any"
        adds = "yes" if kind.mergeable else "no"
        rows = str(kind.smallest_window)
        lines.append([f"`{name}`", kind.title, knows, mix, rows, adds, kind.reference])
    header = ["name", "method", "needs", "class mix", "least rows", "states add", "reference"]
    return markdown(header, lines, 7)


def _estimates(part: str, setting: str) -> dict[str, Row]:
    wanted = {"part": part, "setting": setting, "network": "all networks"}
    rows = read("studies/accuracy")
    return {row["estimator"]: row for row in rows if all(row[k] == v for k, v in wanted.items())}


def whole() -> str:
    """Return how far estimators are off on whole splits, best first."""
    found, clean = _estimates("environments", "whole"), _estimates("clean labels", "whole")
    lines = []
    for name, row in sorted(found.items(), key=lambda item: float(item[1]["mae"])):
        points = [f"{100 * float(row[key]):.2f}" for key in ("mae", "worst", "bias")]
        held = [f"{100 * float(r['coverage']):.0f}" for r in (row, clean[name])]
        width = f"{100 * float(row['width']):.1f}"
        lines.append([f"`{name}`", *points, f"{float(row['spearman']):.2f}", width, *held])
    header = ["estimator", "off by", "worst", "bias", "rank correlation", "interval's width",
              "interval held", "held, clean labels"]  # fmt: skip
    return markdown(header, lines)


def windows() -> str:
    """Return how far estimators are off by size and class mix, the best of each in bold."""
    tables = {setting: _estimates("environments", setting) for setting in SETTINGS}
    best = {s: min(float(row["mae"]) for row in table.values()) for s, table in tables.items()}
    lines = []
    for name in sorted(tables["whole"], key=lambda n: float(tables["whole"][n]["mae"])):
        cells = []
        for setting, table in tables.items():
            value = float(table[name]["mae"])
            text = f"{100 * value:.2f}"
            cells.append(f"**{text}**" if value == best[setting] else text)
        lines.append([f"`{name}`", *cells])
    return markdown(["estimator", *SETTINGS.values()], lines)


# How often calibration harms


def choices(split: str) -> str:
    """Return the excess ECE of every method by tuning rows and classes, the best in bold."""
    rows = [row for row in read("studies/choose") if row["split"] == split]
    found = {(row["method"], row["classes"], row["tuning_rows"]): row for row in rows}
    sizes = list(dict.fromkeys(key[1:] for key in found))
    best = {s: min(float(r["excess_ece"]) for k, r in found.items() if k[1:] == s) for s in sizes}
    lines = []
    for name in dict.fromkeys(key[0] for key in found):
        cells = []
        for size in sizes:
            row = found[name, *size]
            half = (float(row["high"]) - float(row["low"])) / 2
            text = f"{float(row['excess_ece']):.1f} ± {half:.1f}"
            cells.append(f"**{text}**" if float(row["excess_ece"]) == best[size] else text)
        lines.append([f"`{name}`", *cells])
    return markdown(["method", *(f"K = {k}, n = {int(n):,}" for k, n in sizes)], lines)
