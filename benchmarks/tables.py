"""The csv files of benchmarks and studies as Markdown tables; docs/make.py puts them into pages."""

import csv
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from wildcal._old.report.names import DATA_TITLES, METHOD_TITLES, family
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
    """Return speed and faults of the server, with their limits."""
    lines = [[row["part"], row["what"], row["value"], row["limit"] or "-"] for row in read("serve")]
    return markdown(["test", "measured", "value", "limit"], lines, 2)


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

REGIMES = {
    "suites": ("source", "whole", "128", "32", "dirichlet", "stream"),
    "natural": ("source", "whole", "128"),
}


def window_methods(part: str, *beds: str) -> str:
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
        cells = []
        for regime in REGIMES[part]:
            ece = [float(row["excess_ece"]) for row in own if row["regime"] == regime]
            cells.append(f"{100 * statistics.mean(ece):.1f}" if ece else "-")
        n = [int(row["conditions"]) for row in whole]
        for key in ("nll_change", "worse"):
            total = sum(float(row[key]) * k for row, k in zip(whole, n, strict=True))
            cells.append(f"{100 * total / sum(n):.1f}")
        lines.append([f"`{name}`", *cells, f"{100 * max(float(r['worst']) for r in whole):.0f}"])
    header = ["method", *REGIMES[part], "NLL change", "worse by 1 %", "worst"]
    return markdown(header, lines)


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
