"""The tables of docs/scale.md: what a fit holds, and what benchmarks/scale.py measured."""

import csv
from pathlib import Path

from wildcal.accuracy import ESTIMATORS
from wildcal.calibrators import CALIBRATORS, WINDOW_METHODS, make_calibrator
from wildcal.cli.methods import FROM_SHARDS, HOLDS
from wildcal.metrics.registry import METRICS

RESULTS = Path(__file__).parents[1] / "scale"
METRIC_KINDS = {
    "sums": ("top", "mean", "sums", "kde"),
    "distinct confidences": ("scores",),
    "left out: they need every row": (None,),
}
# What the cost model is asked about: rows, classes, workers, and the file system's GB/s in all.
FAR = 10**10, 1000, 100
SLOW_DISKS = 2.0


def read(name: str) -> list[dict[str, str]]:
    """Return what was measured."""
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def methods() -> str:
    """Return which methods hold what."""
    kinds = {name: make_calibrator(name) for name in (*CALIBRATORS, *WINDOW_METHODS, "dac")}
    lines = ["| a fit holds | from shards | methods |", "|---|---|---|"]
    for state, held in HOLDS.items():
        names = [f"`{name}`" for name, kind in kinds.items() if kind.state == state]
        lines.append(f"| {held} | {FROM_SHARDS[state]} | {', '.join(names)} |")
    return "\n".join(lines)


def metrics() -> str:
    """Return which metrics hold what, and which estimators of accuracy."""
    lines = ["| a walk holds | metrics |", "|---|---|"]
    for held, flat in METRIC_KINDS.items():
        names = [f"`{name}`" for name, metric in METRICS.items() if metric.flat in flat]
        lines.append(f"| {held} | {', '.join(names)} |")
    return "\n".join(lines)


def estimators() -> str:
    """Return which estimators of accuracy read a window piece by piece."""
    lines = ["| a window is | estimators |", "|---|---|"]
    words = {True: "read piece by piece, on a cluster too", False: "held, if it fits"}
    for mergeable, how in words.items():
        names = [f"`{n}`" for n, kind in ESTIMATORS.items() if kind.mergeable is mergeable]
        lines.append(f"| {how} | {', '.join(names)} |")
    return "\n".join(lines)


def memory() -> str:
    """Return the peaks of the capped process."""
    found = read("memory")
    lines = ["| shards | rows | peak | limit |", "|--:|--:|--:|--:|"]
    for row in found:
        lines.append(
            f"| {row['gigabytes']} GB | {int(row['rows']):,} | {float(row['peak_mib']):.0f} MiB"
            f" | {row['cap_mib']} MiB |"
        )
    grown = float(found[-1]["peak_mib"]) / float(found[0]["peak_mib"]) - 1
    few, many = found[0]["gigabytes"], found[-1]["gigabytes"]
    return "\n".join(
        [*lines, "", f"From {few} to {many} GB the peak grows by {100 * grown:.1f} %."]
    )


def rows() -> str:
    """Return time against rows, as ratios to the smallest set of the same width."""
    lines = [
        "| classes | rows | passes | times the rows | times the work |",
        "|--:|--:|--:|--:|--:|",
    ]
    first: dict[str, dict[str, str]] = {}
    for row in read("rows"):
        unit = first.setdefault(row["classes"], row)
        more = int(row["rows"]) / int(unit["rows"])
        took = float(row["processor_seconds"]) / float(unit["processor_seconds"])
        lines.append(
            f"| {row['classes']} | {int(row['rows']):,} | {row['passes']} | {more:,.0f} |"
            f" {took:,.1f} |"
        )
    return "\n".join(lines)


def workers() -> str:
    """Return how fast workers are beside a thread, by three clocks, and what others took."""
    found = read("workers")
    lines = [
        "| | clock | all processes | threads that compute | others took | moved | tasks |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    kinds = ("seconds", "processes_seconds", "threads_seconds")
    for row in found:
        speeds = [f"{float(found[0][kind]) / float(row[kind]):.2f}" for kind in kinds]
        moved = f"{float(row['mb_moved']):.2f} MB" if int(row["tasks"]) else "-"
        others = f"{100 * float(row['others_share']):.0f} %"
        lines.append(
            f"| {row['engine']} | {' | '.join(speeds)} | {others} | {moved} | {row['tasks']} |"
        )
    return "\n".join(lines)


def cost() -> str:
    """Return the parts of the cost model, and its predictions beside measurements."""
    heads = "| method | rows | passes | predicted | measured |"
    lines = [heads, "|---|--:|--:|--:|--:|"]
    for row in read("cost"):
        lines.append(
            f"| `{row['method']}` | {int(row['rows']):,} | {row['passes']} |"
            f" {float(row['predicted_seconds']):.1f} s | {float(row['measured_seconds']):.1f} s |"
        )
    first = read("cost")[0]
    said = (
        f"`rate` was {float(first['gb_per_second']):.2f} GB/s by the first line, and `wait`"
        f" {float(first['wait_ms']):.0f} ms by a set of 4,000 rows."
    )
    return "\n".join([*lines, "", said])


def far() -> str:
    """Return what the cost model says of many rows on many workers."""
    ts = read("cost")[0]
    n, k, many = FAR
    gigabytes, rate, passes = 4e-9 * n * k, float(ts["gb_per_second"]), int(ts["passes"])
    seconds = gigabytes / (many * rate)
    slow = gigabytes / SLOW_DISKS
    return (
        f"For 10^10 rows of 1,000 classes ({gigabytes / 1e3:.0f} TB) on {many} workers with a core"
        f" each, {rate:.2f} GB/s\npredict {seconds:,.0f} s a pass and"
        f" {passes * seconds / 60:.0f} minutes for `ts`, if the file system delivers"
        f" {many * rate:.0f} GB/s in all;\nwith {SLOW_DISKS:g} GB/s in all a pass takes"
        f" {slow / 3600:.1f} hours and the fit {passes * slow / 3600:.0f}."
    )


TABLES = {
    "scale-methods": methods,
    "scale-metrics": metrics,
    "scale-estimators": estimators,
    "scale-memory": memory,
    "scale-rows": rows,
    "scale-workers": workers,
    "scale-cost": cost,
    "scale-far": far,
}
