"""The table of docs/stream.md: how soon a shift is noticed, and how often there was none."""

import csv
import statistics
from pathlib import Path

HERE = Path(__file__).parent
NAMES = {
    "sequential": "any row (`sequential`)",
    "often": "any row, `false_alarms_per_100k=50`",
    "window": "each new window (`window`)",
}


def read() -> list[dict[str, str]]:
    """Return the rows that alarm.py wrote."""
    with (HERE / "alarm.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def delays(rows: list[dict[str, str]]) -> str:
    """Return the median delay by severity, the streams that were noticed, and false alarms."""
    lines = [
        "| alarm decided at | severity 1 | 2 | 3 | 4 | 5 | false alarms in 100,000 rows |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for test, name in NAMES.items():
        mine = [row for row in rows if row["test"] == test]
        cells = []
        for severity in range(1, 6):
            found = [row for row in mine if row["severity"] == str(severity)]
            delay = statistics.median(float(row["delay"]) for row in found)
            share = sum(int(row["noticed"]) for row in found) / sum(
                int(row["streams"]) for row in found
            )
            cells.append(f"{delay:,.0f} ({100 * share:.0f} %)")
        false = statistics.mean(float(row["per_100k"]) for row in mine if row["kind"] == "clean")
        lines.append(f"| {name} | {' | '.join(cells)} | {false:.1f} |")
    return "\n".join(lines)
