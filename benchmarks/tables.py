"""The csv files of benchmarks and studies as Markdown tables; docs/make.py puts them into pages."""

import csv
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from wildcal._old.accuracy import ESTIMATORS
from wildcal._old.report.names import DATA_TITLES, METHOD_TITLES, family

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


# The paper's claims

RIVALS = ("ts", "ets", "irm", "irova", "irovats", "spline")
HOLDS, NOT, OPEN, NEVER = "holds", "does not hold", "undecided", "cannot be tested here"
MARGIN = 0.0025
"""A quarter of a point of ECE: less is called no difference."""


class Difference(NamedTuple):
    """By how much one method is above another on a suite; the claim says above zero."""

    value: float
    low: float
    high: float


def claims() -> str:
    """Return the paper's claims, what is measured, and whether they hold."""
    text = (files("wildcal._old.report") / "paper_tables.json").read_text("utf-8")
    found = _claims(read("studies/claims"), json.loads(text))
    lines = [[*cells[:3], f"**{cells[3]}**"] for cells in found]
    return markdown(["the paper says", "its numbers", "ours", "verdict"], lines, 4)


def _claims(everything: list[Row], paper: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    rows = [row for row in everything if row["data"] in DATA_TITLES]
    table1 = paper["table1_ece"]
    for method in RIVALS:
        title = METHOD_TITLES[method]
        said = _range(row[title] - row["Ours"] for row in table1)
        yield f"{title} is worse than energy (Table 1)", said, *_judged(_differences(rows, method))
    yield _order(rows, table1)
    said = _range(row["Ours_wo"] - row["Ours"] for row in paper["table9_ece_with_wo"])
    seen = _differences(rows, "energy-no-ood")
    yield "energy without rows of other classes is worse (Table 9)", said, *_judged(seen)
    yield _either_set(rows, paper["table8_ood_type"])
    yield _best(rows, "kde_ece", "KDE-ECE (Table 4)", paper["table4_kde_ece"])
    yield _best(rows, "sce", "SCE (Table 5)", paper["table5_sce"])
    transformers = [row for row in rows if (family(row["network"]) or "").startswith("ViT")]
    table6 = paper["table6_vit"]
    said = _range(table6["Uncal"][n][0] - table6["Ours"][n][0] for n in table6["Uncal"])
    seen = _differences(transformers, "identity")
    yield "energy helps transformers (Table 6; ours is ViT-Tiny)", said, *_judged(seen)
    table2 = paper["table2_dac_ece"]
    at = table2["columns"].index
    for base, title in (("ets", "ETS"), ("spline", "SPLINE"), ("energy", "Ours")):
        gains = [
            row[at(title)] - row[at(f"{title}+DAC")] for n, row in table2.items() if n != "columns"
        ]
        seen = [Difference(-s.value, -s.high, -s.low)
                for s in _differences(rows, f"dac+{base}", base)]  # fmt: skip
        name = base if base == "energy" else title
        yield f"DAC improves {name} (Table 2)", _range(gains), *_judged(seen)
    yield _detection(rows)
    table7 = paper["table7_extra_covariate_ece"]
    ts, ours = (table7["columns"].index(name) for name in ("TS", "Ours"))
    numbers = [row for name, by in table7.items() if name != "columns" for row in by.values()]
    said = f"{_range(row[ts] - row[ours] for row in numbers)} on ImageNet-R, -A and -Sketch"
    natural = [row for row in everything if row["data"] not in DATA_TITLES]
    seen, verdict = _judged(_differences(natural, "ts"))
    yield (
        "TS is worse than energy under natural shift (Table 7)",
        said,
        f"on suites of other data {seen}",
        f"{NEVER}; on other data it {verdict}",
    )


def _differences(rows: Sequence[Row], method: str, minus: str = "energy") -> list[Difference]:
    """Return by how much a method's average ECE is above another's, on every suite.

    Both were tuned with the paper's set. Where cells have few rows, their types are pooled.
    """
    first = {row["suite"]: row["tuned_with"] for row in reversed(rows)}
    pooled = {row["suite"] for row in rows if row["metric"] == "pooled_ece"}
    found = []
    for row in rows:
        metric = "pooled_ece" if row["suite"] in pooled else "ece"
        mine = (row["method"], row["metric"], row["minus"]) == (method, metric, minus)
        if mine and row["tuned_with"] == first[row["suite"]]:
            found.append(Difference(*(float(row[f"difference{e}"]) for e in ("", "_low", "_high"))))
    return found


def _judged(seen: Sequence[Difference]) -> tuple[str, str]:
    """Return what was found on all suites, and a verdict."""
    n, holds = len(seen), sum(one.low > 0 for one in seen)
    opposite = sum(one.high < 0 for one in seen)
    ours = _range(100 * one.value for one in seen)
    text = f"{ours}; sure on {holds} of {n}, the opposite on {opposite}"
    if holds == n:
        return text, HOLDS
    if holds == 0:
        return text, NOT if opposite else OPEN
    return text, f"holds on {holds} of {n}"


def _share(kept: int, n: int) -> str:
    return HOLDS if kept == n else f"holds on {kept} of {n}" if kept else NOT


def _values(rows: Sequence[Row], methods: Sequence[str], metric: str = "ece") -> list[list[float]]:
    """Return a value of each method on every suite: the first row, that with the usual tuning."""
    first: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["metric"] == metric:
            first.setdefault((row["suite"], row["method"]), float(row["value"]))
    return [[first[suite, m] for m in methods] for suite in dict.fromkeys(s for s, _ in first)]


def _order(rows: Sequence[Row], table: Sequence[dict[str, Any]]) -> tuple[str, str, str, str]:
    values = _values(rows, ("energy", "irm", "ets", "ts"))
    kept = sum(some == sorted(some) for some in values)
    published = [[row[title] for title in ("Ours", "IRM", "ETS", "TS")] for row in table]
    theirs = sum(some == sorted(some) for some in published)
    return (
        "the order is energy < IRM < ETS < TS (Table 1)",
        f"{theirs} of {len(table)} networks",
        f"{kept} of {len(values)} networks",
        _share(kept, len(values)),
    )


def _best(
    rows: Sequence[Row], metric: str, title: str, published: Sequence[dict[str, Any]]
) -> tuple[str, str, str, str]:
    methods = ("energy", "identity", *RIVALS)
    values = _values(rows, methods, metric)
    kept = sum(min(some) == some[0] for some in values)
    titles = [METHOD_TITLES[m] for m in methods[1:]]
    theirs = sum(all(row["Ours"] <= row[t] for t in titles) for row in published)
    return (
        f"energy is the best by {title}",
        f"{theirs} of {len(published)} networks",
        f"{kept} of {len(values)} networks",
        _share(kept, len(values)),
    )


def _either_set(rows: Sequence[Row], table: dict[str, Any]) -> tuple[str, str, str, str]:
    """Whether energy depends on the set of other classes that it is tuned with."""
    by_suite: dict[str, dict[str, float]] = {}
    for row in rows:
        if (row["method"], row["metric"]) == ("energy", "ece"):
            by_suite.setdefault(row["suite"], {})[row["tuned_with"]] = float(row["value"])
    pairs = [list(found.values()) for found in by_suite.values() if len(found) == 2]
    changes = [other - usual for usual, other in pairs]
    said = _range(v["Texture"][2] - v["SVHN"][2] for k, v in table.items() if k != "columns")
    return (
        "it hardly matters which other classes tune energy (Table 8)",
        f"Textures minus SVHN {said}",
        f"the other set minus the usual {_range(100 * change for change in changes)}",
        _share(sum(abs(change) < MARGIN for change in changes), len(changes)),
    )


def _detection(rows: Sequence[Row]) -> tuple[str, str, str, str]:
    """Whether energy is less confident than TS on classes that nobody tuned with."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["metric"].startswith("mean_confidence "):
            found.setdefault((row["suite"], row["metric"]), {})[row["method"]] = float(row["value"])
    gaps = [100 * (by["ts"] - by["energy"]) for by in found.values()]
    return (
        "energy is less confident than TS on unseen classes (Figure 6)",
        "a figure",
        f"TS minus energy {_range(gaps)} points of confidence",
        _share(sum(gap > 0 for gap in gaps), len(gaps)),
    )


def _range(values: Iterable[float]) -> str:
    found = list(values)
    low, high = f"{min(found):+.2f}", f"{max(found):+.2f}"
    return low if low == high else f"{low} to {high}"
