"""The csv files of benchmarks and studies as Markdown tables; docs/make.py puts them into pages."""

import csv
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from wildcal.accuracy import ESTIMATORS, get_estimator

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
    """Return our time, and that of every other package divided by it."""
    lines: dict[tuple[str, str], list[str]] = {}
    for row in read("peers"):
        task, classes = row["task"], f"{int(row['classes']):,}"
        if row["package"] == "wildcal":
            ms = float(row["ms"])
            lines[task, classes] = [task, "", classes, f"{ms:,.0f}" if ms >= 10 else f"{ms:.1f}"]
        elif row["ratio"]:
            line = lines[task, classes]
            ratio = float(row["ratio"])
            shown = f"{ratio:.1f}" if ratio >= 0.1 else f"{ratio:.1g}"
            line[1] += f"{', ' if line[1] else ''}{row['package']} {shown}"
    return markdown(["task", "time of others / ours", "classes", "our ms"], lines.values(), 2)


CORRUPTIONS = {
    "noise": "gaussian_noise shot_noise impulse_noise speckle_noise",
    "blur": "defocus_blur glass_blur motion_blur zoom_blur gaussian_blur",
    "weather": "snow frost fog brightness spatter",
    "digital": "contrast elastic_transform pixelate jpeg_compression saturate",
}


def corruptions() -> str:
    """Return how long each group of corruptions takes, ours and that of the public package."""
    rows = {row["type"]: row for row in read("corruptions")}
    groups = {name: [rows[t] for t in types.split()] for name, types in CORRUPTIONS.items()}
    lines = []
    for name, found in {**groups, "all": list(rows.values())}.items():
        ours, theirs, ratio = (
            statistics.geometric_mean(float(row[key]) for row in found)
            for key in ("ms", "peer", "faster")
        )
        lines.append([name, f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.1f}"])
    header = ["corruptions", "ms an image", "`imagecorruptions`, ms", "ratio"]
    return markdown(header, lines)


def serving() -> str:
    """Return speed and faults of the server, with their limits."""
    rows = [row for row in read("serve") if row["limit"] or row["what"].startswith("wildcal")]
    lines = [[f"{row['part']}: {row['what']}", row["value"], row["limit"] or "-"] for row in rows]
    return markdown(["test", "value", "limit"], lines)


def monitoring() -> str:
    """Return errors of the estimate, coverage of its interval and delay of alerts by severity."""
    rows = read("studies/monitor")
    lines = []
    for severity in "012345":
        found = [row for row in rows if row["severity"] == severity]
        delays = [float(row["delay"] or "inf") for row in found]
        noticed = sum(delay < float("inf") for delay in delays)
        middle = statistics.median(delays)
        error = statistics.mean(abs(float(row["error"])) for row in found)
        held = statistics.mean(int(row["held"]) for row in found)
        lines.append(
            [
                "none" if severity == "0" else severity,
                f"{100 * error:.1f}",
                f"{100 * held:.0f} %",
                f"{100 * noticed / len(found):.0f} %",
                f"{middle:.0f}" if middle < float("inf") else "-",
            ]
        )
    header = ["severity", "mean error, points", "interval held", "alerts within 2,000"]
    return markdown([*header, "median delay, samples"], lines)


# Accuracy without labels

SETTINGS = {
    "whole": "1,000 samples",
    "512": "512",
    "128": "128",
    "32": "32",
    "dirichlet-1": "256, Dirichlet(1)",
    "dirichlet-0.3": "256, Dirichlet(0.3)",
}


def estimators() -> str:
    """Return what every accuracy estimator assumes."""
    lines = []
    for name in ESTIMATORS:
        e = get_estimator(name)
        frequencies = "as in the source" if e.assumes_source_prior else "any"
        needs = "logits of a second network" if e.requires_second_logits else "-"
        sums = "yes" if e.summable else "no"
        lines.append(
            [f"`{name}`", f"`{e!r}`", frequencies, str(e.min_window), sums, needs, e.reference]
        )
    header = ["name", "class", "class frequencies", "samples", "statistics", "needs", "reference"]
    return markdown(header, lines, 7)


def _estimates(part: str, setting: str) -> dict[str, Row]:
    rows = read("studies/accuracy")
    return {r["estimator"]: r for r in rows if (r["part"], r["setting"]) == (part, setting)}


def estimator_errors() -> str:
    """Return the mean error by size and class frequencies, the best of each in bold."""
    tables = {setting: _estimates("domains", setting) for setting in SETTINGS}
    best = {s: min(float(row["mae"]) for row in table.values()) for s, table in tables.items()}
    lines = []
    for name, whole in sorted(tables["whole"].items(), key=lambda item: float(item[1]["mae"])):
        cells = []
        for setting, table in tables.items():
            value = float(table[name]["mae"])
            cells.append(("**{:.1f}**" if value == best[setting] else "{:.1f}").format(100 * value))
        extremes = [f"{100 * float(whole[key]):.1f}" for key in ("worst", "bias")]
        lines.append([f"`{name}`", *cells, *extremes])
    return markdown(["estimator", *SETTINGS.values(), "worst", "bias"], lines)


def interval_coverage() -> str:
    """Return how often intervals contain the accuracy, with standard errors."""
    lines = []
    for name in _estimates("intervals, domains", "in distribution"):
        cells = []
        for part in ("intervals, domains", "intervals, source only"):
            for setting in ("in distribution", "unseen corruptions"):
                row = _estimates(part, setting)[name]
                share, error = (100 * float(row[key]) for key in ("coverage", "coverage_se"))
                cells.append(f"{share:.1f} ± {error:.1f}")
        width = _estimates("intervals, domains", "unseen corruptions")[name]["width"]
        lines.append([f"`{name}`", *cells, f"{100 * float(width):.0f}"])
    header = ["estimator", "in distribution", "unseen corruptions", "in distribution, no domains",
              "unseen corruptions, no domains", "width"]  # fmt: skip
    return markdown(header, lines)


# Windows

# In studies/window.csv only.
OMITTED = ("smart", "match+mano", "match+mde")


def window_methods(regimes: Sequence[str], part: str, *beds: str) -> str:
    """Return excess ECE by regime, and how often a method is worse than pooled ts.

    Of beds whose names start with one of the given words; of methods that were run on all of them.
    """
    rows = [row for row in read("studies/window") if row["part"] == part]
    rows = [row for row in rows if row["bed"].startswith(beds or "")]
    n_beds = len({row["bed"] for row in rows})
    lines = []
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        whole = [row for row in own if row["regime"] == "whole"]
        if len(whole) < n_beds and not name.startswith("energy"):  # energy needs raw logits
            continue
        if name in OMITTED:
            continue
        cells = []
        for regime in regimes:
            ece = [float(row["excess_ece"]) for row in own if row["regime"] == regime]
            cells.append(f"{100 * statistics.mean(ece):.1f}" if ece else "-")
        n = [int(row["conditions"]) for row in whole]
        for key in ("nll_change", "worse"):
            total = sum(float(row[key]) * k for row, k in zip(whole, n, strict=True))
            cells.append(f"{100 * total / sum(n):.1f}")
        lines.append([f"`{name}`", *cells, f"{100 * max(float(r['worst']) for r in whole):.0f}"])
    header = ["method", *regimes, "NLL change", "worse by 1 %", "worst"]
    return markdown(header, lines)
