"""The csv of streams.py as Markdown tables; docs/make.py puts them into the docs."""

from collections.abc import Sequence
from pathlib import Path

from context_tables import Row, markdown, read

CSV = Path(__file__).with_name("streams.csv")
STREAMS = {
    ("two corruptions", "milder"): "two → milder",
    ("two corruptions", "all"): "two → all",
    ("two corruptions", "harder"): "two → harder",
    ("four corruptions", "transforms"): "four → transforms",
    ("transforms", "milder"): "transforms → milder",
    ("transforms", "all"): "transforms → all",
    ("transforms", "harder"): "transforms → harder",
}
"""What methods were tuned on, and what streams mix."""


def table(rows: Sequence[Row], classes: str) -> str:
    """Return the excess ECE of each method on each stream, the least of each in bold."""
    mine = [r for r in rows if (r["classes"], r["metric"]) == (classes, "excess_ece")]
    found = {(r["tuned_on"], r["stream"], r["method"]): r for r in mine}
    methods = list(dict.fromkeys(r["method"] for r in mine))
    best = {
        at: min(methods, key=lambda method, at=at: float(found[*at, method]["value"]))
        for at in STREAMS
    }
    lines = []
    for method in methods:
        cells = []
        for at in STREAMS:
            row = found[*at, method]
            value, low, high = (f"{100 * float(row[k]):.1f}" for k in ("value", "low", "high"))
            value = f"**{value}**" if best[at] == method else value
            cells.append(f"{value} ({low} to {high})")
        lines.append([f"`{method}`", *cells])
    return markdown(["method", *STREAMS.values()], lines, 1)


TABLES = {
    "streams-ten": lambda: table(read(CSV), "10"),
    "streams-hundred": lambda: table(read(CSV), "100"),
}
