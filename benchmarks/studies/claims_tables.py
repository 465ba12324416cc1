"""The csv of claims.py as Markdown: what the paper claims, what we measure, whether it holds."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from wildcal.report.names import DATA_TITLES, METHOD_TITLES, family

Row = dict[str, str]
RIVALS = ("ts", "ets", "irm", "irova", "irovats", "spline")
HOLDS, NOT, OPEN, NEVER = "holds", "does not hold", "undecided", "cannot be tested here"
MARGIN = 0.0025
"""A quarter of a point of ECE: less is called no difference."""


@cache
def read() -> tuple[Row, ...]:
    with (Path(__file__).parent / "claims.csv").open(newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def paper() -> dict[str, Any]:
    text = (files("wildcal.report") / "paper_tables.json").read_text("utf-8")
    return json.loads(text)


@dataclass(frozen=True)
class Seen:
    """One comparison on one suite: a difference that the claim says is above zero."""

    suite: str
    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        return HOLDS if self.low > 0 else NOT if self.high < 0 else OPEN

    def __str__(self) -> str:
        text = f"{100 * self.value:+.2f} ({100 * self.low:+.2f} to {100 * self.high:+.2f})"
        return f"**{text}**" if self.verdict != OPEN else text


PAPER_TITLES = {**METHOD_TITLES, "energy": "Ours"}
"""What the paper's tables call the methods."""


def differences(
    rows: Sequence[Row],
    method: str,
    minus: str = "energy",
    *,
    sign: int = 1,
    metric: str | None = None,
) -> list[Seen]:
    """Return by how much a method's average ECE is above another's, on every suite.

    Both were tuned with the paper's set. Where cells have few rows, their types are pooled, unless
    `metric` says which ECE is meant.
    """
    first = {row["suite"]: row["tuned_with"] for row in reversed(rows)}
    with_few = few_rows(rows)
    found = []
    for row in rows:
        wanted = metric or ("pooled_ece" if row["suite"] in with_few else "ece")
        mine = (row["method"], row["metric"], row["minus"]) == (method, wanted, minus)
        if mine and row["tuned_with"] == first[row["suite"]]:
            value, low, high = (float(row[f"difference{end}"]) for end in ("", "_low", "_high"))
            low, high = (low, high) if sign > 0 else (-high, -low)
            found.append(Seen(row["suite"], sign * value, low, high))
    return found


def few_rows(rows: Sequence[Row]) -> set[str]:
    """Return the suites whose cells have so few rows that they were pooled too."""
    return {row["suite"] for row in rows if row["metric"] == "pooled_ece"}


def gaps(rows: Sequence[Row] | None = None) -> str:
    """Return energy's average on each suite, and how far every rival is above it.

    Suites with few rows a cell have a second row, with the types pooled.
    """
    rows = read() if rows is None else rows
    lines = [
        "| suite | energy | noise floor | "
        + " | ".join(f"{METHOD_TITLES[m]} above it" for m in RIVALS) + " |",
        "|---|--:|--:|" + "--:|" * len(RIVALS),
    ]  # fmt: skip
    with_few = few_rows(rows)
    for suite in dict.fromkeys(row["suite"] for row in rows):
        for metric in ("ece", *(["pooled_ece"] if suite in with_few else [])):
            row = _find(rows, suite, "energy", metric)
            mine = [r for r in rows if r["suite"] == suite]
            seen = {m: differences(mine, m, metric=metric) for m in RIVALS}
            cells = [str(seen[m][0]) if seen[m] else "-" for m in RIVALS]
            own = f"{100 * float(row['value']):.2f} | {100 * float(row['noise_floor']):.2f}"
            name = f"`{suite}`" if metric == "ece" else f"`{suite}`, types pooled"
            lines.append(f"| {name} | {own} | {' | '.join(cells)} |")
    return "\n".join(lines)


def boxes(rows: Sequence[Row] | None = None) -> str:
    """Return what the published bound of theta costs: the three boxes on every suite."""
    rows = read() if rows is None else rows
    lines = [
        "| suite | `safe` | `free` minus `safe` | `paper` minus `safe` |"
        " theta2, `safe` | theta2, `free` |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    by_box = {
        b: {s.suite: s for s in differences(rows, f"energy-{b}", metric="ece")}
        for b in ("free", "paper")
    }
    for suite in dict.fromkeys(row["suite"] for row in rows):
        safe, free = (_find(rows, suite, name) for name in ("energy", "energy-free"))
        thetas = [f"{float(row['theta_incorrect']):.1f}" for row in (safe, free)]
        cells = [f"{100 * float(safe['value']):.2f}", *(str(by_box[b][suite]) for b in by_box)]
        lines.append(f"| `{suite}` | {' | '.join([*cells, *thetas])} |")
    return "\n".join(lines)


def claims(rows: Sequence[Row] | None = None) -> str:
    """Return the table of verdicts."""
    rows = read() if rows is None else rows
    lines = ["| the paper says | its numbers | ours | verdict |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(cells[:3])} | **{cells[3]}** |" for cells in _claims(rows)]
    return "\n".join(lines)


def _claims(rows: Sequence[Row]) -> Iterator[tuple[str, str, str, str]]:
    images = [row for row in rows if row["data"] in DATA_TITLES]
    table1 = paper()["table1_ece"]
    for method in RIVALS:
        title = METHOD_TITLES[method]
        seen = differences(images, method)
        said = _range(row[title] - row["Ours"] for row in table1)
        yield f"{title} is worse than energy (Table 1)", said, *_judged(seen)
    yield _order(images, table1)
    table9 = paper()["table9_ece_with_wo"]
    said = _range(row["Ours_wo"] - row["Ours"] for row in table9)
    seen = differences(images, "energy-no-ood")
    yield "energy without rows of other classes is worse (Table 9)", said, *_judged(seen)
    yield _either_set(images)
    for metric, table in (("kde_ece", "table4_kde_ece"), ("sce", "table5_sce")):
        yield _best_by(images, metric, table)
    transformers = [row for row in images if (family(row["network"]) or "").startswith("ViT")]
    table6 = paper()["table6_vit"]
    said = _range(table6["Uncal"][n][0] - table6["Ours"][n][0] for n in table6["Uncal"])
    seen = differences(transformers, "identity")
    what = "energy helps transformers (Table 6: ViT-B, Swin-T; ours is ViT-Tiny)"
    yield what, said, *_judged(seen)
    for base in ("ets", "spline", "energy"):
        title = PAPER_TITLES[base]
        said = _range(
            _dac_gain(name, title) for name in paper()["table2_dac_ece"] if name != "columns"
        )
        seen = differences(images, f"dac+{base}", base, sign=-1)
        yield f"DAC improves {base if base == 'energy' else title} (Table 2)", said, *_judged(seen)
    yield (
        "DAC on ImageNet and on transformers (Table 2)",
        f"{_dac_gain('ImageNet-C (DenseNet201)', 'Ours'):+.2f} for energy on DenseNet201",
        "no ImageNet training images can be had, to which distances would be measured",
        NEVER,
    )
    yield _detection(images)
    yield _natural(rows)


def _dac_gain(network: str, title: str) -> float:
    """Return by how much DAC lowers the paper's ECE of a method."""
    table = paper()["table2_dac_ece"]
    at = table["columns"].index
    return float(table[network][at(title)] - table[network][at(f"{title}+DAC")])


def _order(rows: Sequence[Row], table: Sequence[dict[str, Any]]) -> tuple[str, str, str, str]:
    order = ("energy", "irm", "ets", "ts")
    suites = dict.fromkeys(row["suite"] for row in rows)
    kept = []
    for suite in suites:
        values = [float(_find(rows, suite, method)["value"]) for method in order]
        if values == sorted(values):
            kept.append(suite)
    titles = [PAPER_TITLES[method] for method in order]
    theirs = sum(list(r[t] for t in titles) == sorted(r[t] for t in titles) for r in table)
    word = HOLDS if len(kept) == len(suites) else NOT if not kept else f"on {len(kept)}"
    return (
        "the order is energy < IRM < ETS < TS (Table 1)",
        f"{theirs} of {len(table)} networks",
        f"{len(kept)} of {len(suites)} networks",
        word,
    )


def _either_set(rows: Sequence[Row]) -> tuple[str, str, str, str]:
    """Whether energy depends on the set of other classes that it is tuned with."""
    first = {row["suite"]: row["tuned_with"] for row in reversed(rows)}
    changes = []
    for row in rows:
        if (row["method"], row["metric"]) == ("energy", "ece"):
            if row["tuned_with"] != first[row["suite"]]:
                usual = _find(rows, row["suite"], "energy")
                changes.append(float(row["value"]) - float(usual["value"]))
    table8 = paper()["table8_ood_type"]
    said = _range(v["Texture"][2] - v["SVHN"][2] for k, v in table8.items() if k != "columns")
    small = sum(abs(change) < MARGIN for change in changes)
    word = HOLDS if small == len(changes) else f"holds on {small} of {len(changes)}"
    return (
        "it hardly matters which other classes tune energy (Table 8)",
        f"Textures minus SVHN {said}",
        f"the other set minus the usual {_range(100 * c for c in changes)}",
        word if changes else NEVER,
    )


def _best_by(rows: Sequence[Row], metric: str, table: str) -> tuple[str, str, str, str]:
    titles = [METHOD_TITLES[m] for m in ("identity", *RIVALS)]
    published = paper()[table]
    theirs = sum(all(row["Ours"] <= row[t] for t in titles) for row in published)
    suites = list(dict.fromkeys(row["suite"] for row in rows))
    best = []
    for suite in suites:
        values = {
            m: float(_find(rows, suite, m, metric)["value"])
            for m in ("identity", *RIVALS, "energy")
        }
        if min(values, key=lambda m: values[m]) == "energy":
            best.append(suite)
    name = {"kde_ece": "KDE-ECE (Table 4)", "sce": "SCE (Table 5)"}[metric]
    word = HOLDS if len(best) == len(suites) else f"holds on {len(best)} of {len(suites)}"
    return (
        f"energy is the best by {name}",
        f"{theirs} of {len(published)} networks",
        f"{len(best)} of {len(suites)} networks",
        word if best else NOT,
    )


def _detection(rows: Sequence[Row]) -> tuple[str, str, str, str]:
    """Whether energy is less confident than TS on classes that nobody tuned with."""
    gaps_ = []
    for row in rows:
        if row["method"] == "energy" and row["metric"].startswith("mean_confidence "):
            other = _find(rows, row["suite"], "ts", row["metric"])
            gaps_.append(100 * (float(other["value"]) - float(row["value"])))
    lower = sum(gap > 0 for gap in gaps_)
    word = HOLDS if lower == len(gaps_) else NOT if not lower else f"holds on {lower}"
    return (
        "energy is less confident than TS on unseen classes (Figure 6)",
        "a figure",
        f"TS minus energy {_range(gaps_)} points of confidence",
        word if gaps_ else NEVER,
    )


def _natural(rows: Sequence[Row]) -> tuple[str, str, str, str]:
    table7 = paper()["table7_extra_covariate_ece"]
    place = table7["columns"].index("TS"), table7["columns"].index("Ours")
    numbers = [row for name, by in table7.items() if name != "columns" for row in by.values()]
    said = _range(row[place[0]] - row[place[1]] for row in numbers)
    natural = [row for row in rows if row["data"] not in DATA_TITLES]
    ours, word = _judged(differences(natural, "ts"))
    return (
        "TS is worse than energy under natural shift (Table 7)",
        f"{said} on ImageNet-R, -A and -Sketch",
        f"these images cannot be had; on suites of other data {ours}",
        f"{NEVER}; on other data it {word}" if natural else NEVER,
    )


def _judged(seen: Sequence[Seen]) -> tuple[str, str]:
    """Return what was found on all suites, and a verdict."""
    if not seen:
        return "no suite has what it takes", NEVER
    found = [one.verdict for one in seen]
    ours = _range(100 * one.value for one in seen)
    counts = {word: found.count(word) for word in (HOLDS, OPEN, NOT)}
    text = f"{ours}; sure on {counts[HOLDS]} of {len(seen)}, the opposite on {counts[NOT]}"
    if counts[HOLDS] == len(seen):
        return text, HOLDS
    if counts[HOLDS] == 0:
        return text, NOT if counts[NOT] else OPEN
    return text, f"holds on {counts[HOLDS]} of {len(seen)}"


def _range(values: Iterable[float]) -> str:
    found = list(values)
    if not found:
        return "-"
    low, high = min(found), max(found)
    return f"{low:+.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:+.2f} to {high:+.2f}"


def _find(rows: Sequence[Row], suite: str, method: str, metric: str = "ece") -> Row:
    """Return the first row of a method: that with the usual tuning."""
    wanted = (suite, method, metric)
    return next(r for r in rows if (r["suite"], r["method"], r["metric"]) == wanted)
