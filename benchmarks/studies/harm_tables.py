"""The csv of harm.py as Markdown tables, for docs/theory/auto.md."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import t as student

CSV = Path(__file__).with_name("harm.csv")
Row = dict[str, str]
NEW = ("fresh",)


def read() -> list[Row]:
    """Return the rows of the csv."""
    with CSV.open(newline="") as file:
        return list(csv.DictReader(file))


def _of(rows: Sequence[Row], halves: Sequence[str]) -> list[Row]:
    return [row for row in rows if row["half"] in halves]


def _names(rows: Sequence[Row], column: str) -> list[str]:
    return list(dict.fromkeys(row[column] for row in rows))


def _numbers(rows: Sequence[Row], what: str, **wanted: str) -> np.ndarray:
    """Return one number for each model, in the order of the csv."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return np.array([float(row[what]) for row in found])


def _title(method: str) -> str:
    if method == "identity":
        return "uncalibrated"
    return f"**`{method}`**" if method == "auto" else f"`{method}`" if " " not in method else method


def _sizes(rows: Sequence[Row]) -> list[str]:
    return sorted(_names(rows, "labels"), key=int)


def harm(rows: Sequence[Row], halves: Sequence[str] = NEW) -> str:
    """Return the share of harmed draws and the mean change of NLL, by method and labels."""
    rows = _of(rows, halves)
    sizes = _sizes(rows)
    models = [len(_numbers(rows, "draws", labels=n, method="auto")) for n in sizes]
    heads = [f"{int(n):,} labels ({m} models)" for n, m in zip(sizes, models, strict=True)]
    lines = [
        f"| method | {' | '.join(heads)} | worst draw |",
        "|---|" + "--:|" * (len(sizes) + 1),
    ]
    for method in _names(rows, "method")[1:]:
        cells = []
        for n in sizes:
            draws = _numbers(rows, "draws", labels=n, method=method).sum()
            share = 100 * _numbers(rows, "harmed", labels=n, method=method).sum() / draws
            change = 100 * _numbers(rows, "change", labels=n, method=method)
            error = change.std(ddof=1) / np.sqrt(len(change))
            half = student.ppf(0.975, len(change) - 1) * error
            cells.append(f"{share:.1f} % / {change.mean():+.1f} ± {half:.1f}")
        worst = 100 * _numbers(rows, "worst", method=method).max()
        lines.append(f"| {_title(method)} | {' | '.join(cells)} | {worst:+.1f} % |")
    return "\n".join(lines)


def errors(rows: Sequence[Row], halves: Sequence[str] = NEW) -> str:
    """Return the mean excess ECE in percent, by method and labels."""
    rows = _of(rows, halves)
    sizes = _sizes(rows)
    heads = [f"{int(n):,} labels" for n in sizes]
    lines = [f"| method | {' | '.join(heads)} |", "|---|" + "--:|" * len(sizes)]
    for method in _names(rows, "method"):
        means = [100 * _numbers(rows, "excess_ece", labels=n, method=method).mean() for n in sizes]
        lines.append(f"| {_title(method)} | {' | '.join(f'{mean:.1f}' for mean in means)} |")
    return "\n".join(lines)


def hindsight(rows: Sequence[Row], halves: Sequence[str] = NEW) -> str:
    """Return how far the NLL of some methods is from that of the best one for each model."""
    rows = _of(rows, halves)
    sizes, methods = _sizes(rows), _names(rows, "method")
    single = [method for method in methods if not method.startswith("auto")]
    heads = [f"{int(n):,} labels" for n in sizes]
    lines = [f"| method | {' | '.join(heads)} |", "|---|" + "--:|" * len(sizes)]
    for method in methods:
        cells = []
        for n in sizes:
            all_of_them = [_numbers(rows, "nll", labels=n, method=m) for m in single]
            best = np.min(all_of_them, axis=0)
            gaps = 100 * (_numbers(rows, "nll", labels=n, method=method) / best - 1)
            cells.append(f"{gaps.mean():+.1f} (at most {gaps.max():+.1f})")
        lines.append(f"| {_title(method)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def models(rows: Sequence[Row]) -> str:
    """Return the models with what `auto` makes of each, by the half they are in."""
    sizes = _sizes(rows)
    heads = [f"{int(n):,} labels" for n in sizes]
    lines = [
        f"| data | model | classes | half | NLL | {' | '.join(heads)} |",
        "|---|---|--:|---|--:|" + "--:|" * len(sizes),
    ]
    for row in (r for r in rows if r["method"] == "identity" and r["labels"] == sizes[0]):
        mine = {"data": row["data"], "model": row["model"], "method": "auto"}
        cells = []
        for n in sizes:
            change = 100 * _numbers(rows, "change", labels=n, **mine)
            cells.append(f"{change[0]:+.1f} %" if len(change) else "")
        shown = (row["data"], row["model"], row["classes"], row["half"], f"{float(row['nll']):.3f}")
        lines.append(f"| {' | '.join((*shown, *cells))} |")
    return "\n".join(lines)
