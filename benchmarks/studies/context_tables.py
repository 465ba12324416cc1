"""The csv of context.py as Markdown tables and a figure; docs/make.py puts them into the docs."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

CSV = Path(__file__).with_name("context.csv")
MANY = Path(__file__).with_name("context_many_networks.csv")
"""The same of networks with many classes."""
OF_MANY = {
    "cifar100-resnet20": "ResNet-20, 100 classes",
    "cifar100-se-resnet20": "SE-ResNet-20, 100 classes",
    "imagenet-mobilenetv2": "MobileNetV2, 1,000 classes",
}
CORRUPTIONS, BOTH = "4 corruptions", "4 corruptions and 24 transforms"
MEAN = "mean"
Row = dict[str, str]
WINDOWED = ("match+atc-ne", "match+cot", "match+cot-map")
"""Rivals that read a window too: one temperature, so that confidence is the accuracy told."""
SHOWN = ("identity", "ts", "ets", "irm", "energy", "ts-all", "ets-all", "irm-all", "energy-all",
         "context-1", *WINDOWED, "context")  # fmt: skip


def read(path: Path = CSV) -> list[Row]:
    """Return the rows of a csv."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def find(rows: Sequence[Row], **wanted: str) -> list[Row]:
    """Return the rows whose fields have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def number(rows: Sequence[Row], **wanted: str) -> float:
    """Return the one value that was asked for."""
    (row,) = find(rows, **wanted)
    return float(row["value"])


def networks(rows: Sequence[Row], **wanted: str) -> list[str]:
    """Return the networks, their mean last."""
    return list(dict.fromkeys(row["network"] for row in find(rows, part="test", **wanted)))


def title(method: str) -> str:
    """Return how tables show a method."""
    return "uncalibrated" if method == "identity" else f"`{method}`"


def percent(row: Row, digits: int = 2) -> str:
    """Return a value in percent, with its interval, which reaches to it, if it has one."""
    value = 100 * float(row["value"])
    if not row["low"]:
        return f"{value:.{digits}f}"
    low, high = min(value, 100 * float(row["low"])), max(value, 100 * float(row["high"]))
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]], words: int) -> str:
    """Return a table whose first columns are words."""
    rule = "---|" * words + "--:|" * (len(header) - words)
    rows = [f"| {' | '.join(line)} |" for line in (header, *lines)]
    return "\n".join([rows[0], f"|{rule}", *rows[1:]])


def per_network(rows: Sequence[Row], tuned_on: str = CORRUPTIONS) -> str:
    """Return the average ECE over unseen types: methods x networks, with intervals."""
    mine = find(rows, part="test", tuned_on=tuned_on, metric="ece")
    names = networks(mine)
    methods = sorted(_shown(mine), key=lambda m: number(mine, method=m, network=MEAN))
    lines = []
    for method in methods:
        cells = {row["network"]: row for row in find(mine, method=method)}
        best = method == methods[0]
        texts = [f"**{percent(cells[n])}**" if best else percent(cells[n]) for n in names]
        lines.append([title(method), cells[names[0]]["knew"], *texts])
    return markdown(["method", "knew", *names], lines, 2)


def _shown(rows: Sequence[Row]) -> list[str]:
    """Return the methods of a table that were measured."""
    return [method for method in SHOWN if find(rows, method=method)]


_NUMBERS = {
    "excess_ece": "excess ECE",
    "ratio_to_energy": "of `energy`'s",
    "clean_ece": "clean ECE",
    "mixed_ece": "ECE, mixed",
    "mixed_sixth_clean_ece": "mixed, 1/6 clean",
    "accuracy_mae": "accuracy off by",
    "confidence_textures": "confidence on Textures",
    "confidence_svhn": "on SVHN",
}


def numbers(rows: Sequence[Row], tuned_on: str = CORRUPTIONS) -> str:
    """Return everything that was measured on the test, the mean of the networks, by method."""
    mine = find(rows, part="test", tuned_on=tuned_on, network=MEAN)
    if not mine:
        return "No network of the study has the transforms."
    lines = []
    for method in sorted(_shown(mine), key=lambda m: number(mine, method=m, metric="excess_ece")):
        line = [title(method)]
        for metric in _NUMBERS:
            (row,) = find(mine, method=method, metric=metric)
            if metric == "ratio_to_energy":
                text = f"{float(row['value']):.2f}"
                if method == "context":
                    text += f" ({float(row['low']):.2f} to {float(row['high']):.2f})"
            else:
                text = percent(row) if metric == "clean_ece" else f"{100 * float(row['value']):.2f}"
            line.append(text)
        lines.append(line)
    return markdown(["method", *_NUMBERS.values()], lines, 1)


def every_network(rows: Sequence[Row]) -> str:
    """Return the numbers of `context` network by network, for each set it was tuned on."""
    header = ["network", "tuned on", *_NUMBERS.values()]
    lines = []
    for tuned_on in (CORRUPTIONS, BOTH):
        for network in networks(rows, tuned_on=tuned_on):
            mine = find(rows, part="test", tuned_on=tuned_on, network=network, method="context")
            values = {row["metric"]: row for row in mine}
            texts = [
                f"{float(values[m]['value']):.2f} ({float(values[m]['low']):.2f} to"
                f" {float(values[m]['high']):.2f})"
                if m == "ratio_to_energy"
                else percent(values[m])
                for m in _NUMBERS
            ]
            lines.append([network, tuned_on, *texts])
    return markdown(header, lines, 2)


def windows(rows: Sequence[Row]) -> str:
    """Return excess ECE as a part of `energy`'s, and accuracy off by, by the size of the window."""
    lines = []
    for tuned_on in (CORRUPTIONS, BOTH):
        mine = find(rows, part="test", tuned_on=tuned_on, network=MEAN)
        for method in ("context", "context-1") if mine else ():
            sized = [method, *(f"{method}/{size}" for size in (512, 128, 32))]
            ratios = [f"{number(mine, method=m, metric='ratio_to_energy'):.2f}" for m in sized]
            off = [f"{100 * number(mine, method=m, metric='accuracy_mae'):.2f}" for m in sized]
            pairs = [f"{a} / {b}" for a, b in zip(ratios, off, strict=True)]
            lines.append([title(method), tuned_on, *pairs])
    return markdown(["form", "tuned on", "whole split", "512", "128", "32"], lines, 2)


def class_mixes(rows: Sequence[Row]) -> str:
    """Return the excess ECE with other class mixes, mean of the networks."""
    mine = find(rows, part="test", tuned_on=CORRUPTIONS, network=MEAN)
    mixes = {m: m.partition(": ")[2] for m in _metrics(mine) if m.startswith("excess_ece: ")}
    lines = [
        [title(method), *(f"{100 * number(mine, method=method, metric=m):.2f}" for m in mixes)]
        for method in dict.fromkeys(row["method"] for row in mine if row["metric"] in mixes)
    ]
    return markdown(["method", *mixes.values()], lines, 1)


def _metrics(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["metric"] for row in rows))


def wanted(rows: Sequence[Row]) -> str:
    """Return what was asked of the method and what was measured, on the mean of the networks."""
    lines = []
    for tuned_on in (CORRUPTIONS, BOTH):
        mine = find(rows, part="test", tuned_on=tuned_on, network=MEAN)
        if mine:
            for what, value, limit, words in _checks(mine):
                held = "yes" if value <= limit else "**no**"
                lines.append([what, tuned_on, words, f"{value:.2f}", held])
    return markdown(["what", "tuned on", "wanted", "measured", "held"], lines, 2)


def wanted_of_many(rows: Sequence[Row]) -> str:
    """Return the same of each network with many classes: what was measured, and the limit."""
    found = {
        network: _checks(find(rows, part="test", tuned_on=CORRUPTIONS, network=network))
        for network in OF_MANY
    }
    lines = []
    for checks in zip(*found.values(), strict=True):
        what, words = checks[0][0], checks[0][3]
        # Limits that a rival sets differ from network to network.
        rival = words.rpartition(" of ")[2] if " of " in words else ""
        cells = []
        for _, value, limit, _ in checks:
            held = "" if value <= limit else ", **no**"
            cells.append(f"{value:.2f} of {limit:.2f}{held}")
        lines.append([f"{what}, of `{rival}`" if rival else what, *cells])
    return markdown(["what", *OF_MANY.values()], lines, 1)


def _checks(mine: Sequence[Row]) -> list[tuple[str, float, float, str]]:
    """Return what was measured and the limit, as a number and in words."""

    def of(metric: str, method: str = "context") -> float:
        return number(mine, metric=metric, method=method)

    clean = 100 * (of("clean_ece") - of("clean_ece", "ts"))
    ratio, small = (of("ratio_to_energy", name) for name in ("context", "context/32"))
    off, off_small = (100 * of("accuracy_mae", name) for name in ("context", "context/32"))
    checks = [
        ("excess ECE, part of `energy`'s", ratio, 0.18, "at most 0.18"),
        ("the same, windows of 32 rows", small, 0.25, "at most 0.25"),
        ("clean ECE minus that of `ts`", clean, 0.3, "at most 0.3"),
        ("mean error of the accuracy", off, 2.2, "at most 2.2"),
        ("the same, windows of 32 rows", off_small, 3.5, "at most 3.5"),
    ]
    for metric, what in (("mixed_ece", "mixed"), ("mixed_sixth_clean_ece", "mixed, 1/6 clean")):
        limit = 100 * of(metric, "energy-all")
        checks.append((f"ECE, {what}", 100 * of(metric), limit, f"below {limit:.2f} of energy-all"))
    for metric in _metrics(mine):
        mix = metric.partition("excess_ece: ")[2]
        for rival in ("match+atc-ne", "context-1") if mix else ():
            limit = 100 * of(metric, rival)
            words = f"at most {limit:.2f} of {rival}"
            checks.append((f"excess ECE, {mix}", 100 * of(metric), limit, words))
    return checks


def leave_out(rows: Sequence[Row]) -> str:
    """Return excess ECE and accuracy off by on types left out, by regime, mean of the networks."""
    mine = find(rows, part="leave-out")
    methods = dict.fromkeys(row["method"] for row in mine)
    lines = []
    for metric in _metrics(mine):
        kind, _, regime = metric.partition(": ")
        if kind == "excess_ece":
            cells = []
            for method in methods:
                pair = [
                    [float(r["value"]) for r in find(mine, method=method, metric=f"{k}: {regime}")]
                    for k in ("excess_ece", "accuracy_off")
                ]
                # Exact: from Python 3.12 on, `sum` rounds otherwise, and the last digit with it.
                cells.append(" / ".join(f"{100 * math.fsum(v) / len(v):.2f}" for v in pair))
            lines.append([regime, *cells])
    return markdown(["windows", *map(title, methods)], lines, 1)


_LINES = {
    "identity": ("uncalibrated", "#999999"),
    "ts": ("ts", "#7c9cbf"),
    "energy": ("energy", "#1d4ed8"),
    "energy-all": ("energy-all", "#0f766e"),
    "context": ("context", "#c2410c"),
}


def figure(rows: Sequence[Row]) -> str:
    """Return ECE against severity as SVG: what was tuned on 4 corruptions, on the 15 others."""
    mine = find(rows, part="test", tuned_on=CORRUPTIONS, network=MEAN)
    values = {
        method: [100 * number(mine, method=method, metric=f"ece_severity_{s}") for s in range(6)]
        for method in _LINES
    }
    top = 5 * (1 + int(max(map(max, values.values())) // 5))
    left, bottom, width, height = 60, 250, 430, 215

    def at(severity: int, value: float) -> tuple[float, float]:
        return left + width * severity / 5, bottom - height * value / top

    marks = []
    for value in range(0, top + 1, 5):
        y = at(0, value)[1]
        marks.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}"/>')
        marks.append(f'<text x="{left - 10}" y="{y + 4:.1f}" class="end">{value} %</text>')
    for severity in range(6):
        name = "clean" if severity == 0 else severity
        x = at(severity, 0)[0]
        marks.append(f'<text x="{x:.1f}" y="{bottom + 20}" class="middle">{name}</text>')
    # Names stand at the ends of the lines, pushed apart where these are close.
    free = float(bottom)
    for method in sorted(values, key=lambda m: values[m][-1]):
        name, color = _LINES[method]
        points = [at(severity, value) for severity, value in enumerate(values[method])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        thick = 3 if method == "context" else 2
        marks.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{thick}"/>'
        )
        y = min(points[-1][1], free)
        free = y - 16
        marks.append(f'<text x="{left + width + 8}" y="{y + 4:.1f}" fill="{color}">{name}</text>')
    style = (
        "line{stroke:#8884}text{font:13px sans-serif}.end,.middle{fill:#777}"
        ".end{text-anchor:end}.middle{text-anchor:middle}"
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 300" role="img"'
        ' aria-label="Calibration error by severity of unseen corruptions">\n'
        f"<style>{style}</style>\n" + "\n".join(marks) + "\n"
        f'<text x="{left + width / 2}" y="292" class="middle">severity of 15 unseen corruptions'
        " (ECE, mean of the networks)</text>\n</svg>\n"
    )


def everything(rows: Sequence[Row]) -> list[str]:
    """Return all tables."""
    found = [leave_out(rows)]
    for tuned_on in dict.fromkeys(r["tuned_on"] for r in find(rows, part="test")):
        found += [per_network(rows, tuned_on), numbers(rows, tuned_on)]
    return [*found, every_network(rows), windows(rows), wanted(rows)]
