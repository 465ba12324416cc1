"""The tables of docs/results.md, docs/choose.md and README.md, from the csv files of results.

Every data set counts once: values are averaged over its models first. Intervals (95 %) are
bootstrapped over data sets.
"""

import csv
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from benchmarks.tables import markdown
from numpy.typing import NDArray

HERE: Final = Path(__file__).parent / "results"
BASELINE: Final = "uncalibrated"
AUTO: Final = "auto"
# They choose among other methods or combine them.
NOT_SINGLE: Final = (BASELINE, AUTO, "probcal selector")
LOGITS_ONLY: Final = ("energy", "energy-linear")
REFERENCE: Final = "ts, pooled"
SIZES: Final = ("50", "200", "1000", "5000")
LIMITED: Final = ("200", "1000")
KINDS: Final = ("tables", "networks", "language models")
LIBRARIES: Final = ("sklearn", "netcal", "probmetrics", "betacal", "probcal", "calibre",
                    "venn-abers", "uncertainty-calibration")  # fmt: skip
# Of CalArena's 28 calibrators those that this library or its peers have too.
THEIRS: Final = ("Beta", "Platt-logits", "CDF-Spline", "TS", "ETS", "SVS", "SMS", "VS", "Dirichlet",
                 "Venn-Abers", "Isotonic", "CIR", "BBQ", "Hist-quantile")  # fmt: skip
# Methods in the tables of docs/choose.md.
OURS: Final = ("auto", "ts", "hts", "energy", "vector", "dirichlet", "svs", "sms", "platt", "beta",
               "isotonic", "histogram", "spline", "irova")  # fmt: skip
# Methods that are not in the table of shifted data, since others are like them.
UNSHIFTED: Final = ("energy-linear, source", "ets, pooled", "energy, pooled")
WORSE: Final = 0.01
# Data sets that were used, often with other labels, when `auto` or `window` was designed.
SEEN: Final = ("nycflights13/weather", "ggplot2/diamonds", "carData/BEPS", "ratdat/complete",
               "lme4/InstEval", "dplyr/storms", "sklearn/digits", "cifar10", "cifar100", "imagenet",
               "banking77", "pacs")  # fmt: skip
# Methods in the table of README.md.
SHORT: Final = ("auto", "sms", "ts", "sklearn sigmoid", "sklearn isotonic", "probmetrics svs")

Values = NDArray[np.float64]


class Results(NamedTuple):
    """The csv files of one part: a row per model and size, a column per method."""

    data: NDArray[Any]
    kind: NDArray[Any]
    n_classes: Values
    n: NDArray[Any]
    scores: dict[str, dict[str, Values]]
    """By score and method; NaN where a method was not tried or failed."""

    def where(self, mask: NDArray[np.bool_]) -> "Results":
        """Return some of the rows."""
        scores = {
            name: {method: values[mask] for method, values in columns.items()}
            for name, columns in self.scores.items()
        }
        return Results(self.data[mask], self.kind[mask], self.n_classes[mask], self.n[mask], scores)

    def tried(self, method: str) -> NDArray[np.bool_]:
        """Return where a method took part."""
        found: NDArray[np.bool_] = ~np.isnan(self.scores["nll"][method]) | (
            self.scores["failed"][method] > 0
        )
        return found

    def share(self, score: str, method: str) -> Values:
        """Return a share of draws, 0 where the file is empty."""
        values = np.nan_to_num(self.scores[score][method])
        return np.where(self.tried(method), values, np.nan)


@cache
def load(part: str = "") -> Results:
    """Return the results of in-distribution data, or with part="shift_" those of shifted data."""
    scores: dict[str, dict[str, Values]] = {}
    names = ("nll", "brier", "excess_ece", "failed") + (() if part else ("harmed", "seconds"))
    for name in names:
        rows = read(f"{part}{name}")
        methods = [c for c in rows[0] if c not in ("data", "model", "kind", "n_classes", "n")]
        scores[name] = {m: np.array([float(r[m] or "nan") for r in rows]) for m in methods}
    data, kind, n = (np.array([row[c] for row in rows]) for c in ("data", "kind", "n"))
    return Results(data, kind, np.array([float(r["n_classes"]) for r in rows]), n, scores)


def of_size(n: str, kind: str | None = None) -> Results:
    """Return the results of one size of the calibration set, and of one kind of data."""
    results = load()
    return results.where((results.n == n) & ((results.kind == kind) | (kind is None)))


def mean(values: Values, data: NDArray[Any]) -> tuple[float, float, float]:
    """Return the mean over data sets of means over models, with its interval."""
    good = ~np.isnan(values)
    means = np.array([values[good & (data == d)].mean() for d in np.unique(data[good])])
    if not len(means):
        return np.nan, np.nan, np.nan
    draws = np.random.default_rng(0).integers(0, len(means), (2_000, len(means)))
    low, high = np.quantile(means[draws].mean(axis=1), (0.025, 0.975))
    return float(means.mean()), float(low), float(high)


def everywhere(results: Results) -> list[str]:
    """Return the methods for any number of classes that took part in all rows."""
    methods = results.scores["nll"]
    return [m for m in methods if results.tried(m).all() or m in LOGITS_ONLY]


def ranks(results: Results, methods: Sequence[str]) -> dict[str, Values]:
    """Return the rank of each method by NLL in each row; one that failed in a draw is last."""
    nll = np.column_stack([results.scores["nll"][m] for m in methods])
    nll[:, methods.index(BASELINE)] = 0.0
    tried = np.column_stack([results.tried(m) for m in methods])
    failed = np.column_stack([results.share("failed", m) for m in methods]) > 0
    nll = np.where(tried, np.where(failed, np.inf, nll), np.nan)
    found = np.full(nll.shape, np.nan)
    for i, row in enumerate(nll):
        for j in np.flatnonzero(tried[i]):
            found[i, j] = 1 + (row < row[j]).sum() + ((row == row[j]).sum() - 1) / 2
    return {m: found[:, j] for j, m in enumerate(methods)}


def regret(results: Results, method: str) -> Values:
    """Return how much worse the NLL is than that of the best single method in hindsight.

    The best is the one with the lowest mean NLL over the draws of a model and size, of all methods
    of all libraries that failed in none of them. It may be no calibration.
    """
    single = [
        np.where(results.share("failed", m) > 0, np.inf, np.nan_to_num(v, nan=np.inf))
        for m, v in results.scores["nll"].items()
        if m not in NOT_SINGLE
    ]
    best = np.minimum(np.min(single, axis=0), 0.0)
    own = np.zeros(len(best)) if method == BASELINE else results.scores["nll"][method]
    return (1 + own) / (1 + best) - 1


def percent(value: float, digits: int = 1) -> str:
    """Return a fraction in percent."""
    return "" if np.isnan(value) else f"{100 * value:.{digits}f}"


def with_interval(values: Values, data: NDArray[Any], scale: float = 100, digits: int = 1) -> str:
    """Return a mean with its interval."""
    low_to_high = mean(values, data)
    if np.isnan(low_to_high[0]):
        return ""
    value, low, high = (f"{scale * v:.{digits}f}" for v in low_to_high)
    return f"{value} ({low} to {high})"


def title(method: str) -> str:
    """Return the name of a method for a table: ours as code, others with their library."""
    if method == BASELINE:
        return method
    if method.partition(" ")[0] in LIBRARIES:
        return method.replace("sklearn", "scikit-learn")
    return f"`{method}`"


def main_table(n: str) -> str:
    """Return the main scores of all methods for one size, best rank first."""
    results = of_size(n)
    names = everywhere(results)
    rank = ranks(results, names)
    shown = sorted(names, key=lambda m: mean(rank[m], results.data)[0])
    lines = []
    for m in shown:
        own = {k: v.get(m) for k, v in results.scores.items()}
        if m == BASELINE:
            own["nll"] = np.zeros(len(results.n))
        lines.append([
            title(m),
            with_interval(rank[m], results.data, 1),
            percent(mean(own["nll"], results.data)[0]),
            percent(mean(own["excess_ece"], results.data)[0]),
            percent(mean(results.share("harmed", m), results.data)[0]),
            percent(mean(regret(results, m), results.data)[0]),
        ])  # fmt: skip
    header = ["method", "mean rank", "NLL", "excess ECE", "harm", "regret"]
    return markdown(header, lines)


def short_table() -> str:
    """Return change of NLL and harm of some methods, by size."""
    return by_size(SHORT)


def our_table() -> str:
    """Return change of NLL and harm of our methods that differ, by size."""
    return by_size(OURS)


def by_size(methods: Sequence[str]) -> str:
    """Return change of NLL and harm by size."""
    lines = [[title(m), *(change_and_harm(of_size(n), m) for n in SIZES)] for m in methods]
    return markdown(["method", *(f"{int(n):,} labels" for n in SIZES)], lines)


def change_and_harm(results: Results, method: str) -> str:
    """Return change of NLL and harm, in percent."""
    change = mean(results.scores["nll"][method], results.data)[0]
    harm = mean(results.share("harmed", method), results.data)[0]
    return "" if np.isnan(change) else f"{percent(change)} / {percent(harm)}"


def limited_table() -> str:
    """Return the methods that are slow or for two classes, and `auto` on the same data."""
    lines: dict[str, list[str]] = {}
    for n in LIMITED:
        results = of_size(n)
        for m in results.scores["nll"]:
            here = results.where(results.tried(m))
            if m in everywhere(results) or not len(here.n):
                continue
            lines.setdefault(m, [title(m)])
            lines[m] += [percent(mean(here.scores["nll"][who], here.data)[0]) for who in (m, AUTO)]
            lines[m].append(percent(mean(here.share("harmed", m), here.data)[0]))
    parts = ("NLL", "`auto`", "harm")
    return markdown(["method", *(f"{int(n):,} labels: {p}" for n in LIMITED for p in parts)],
                    lines.values())  # fmt: skip


def kinds_table(n: str = "1000") -> str:
    """Return change of NLL and harm by kind of data, of methods that differ."""
    parts = {k: of_size(n, k) for k in KINDS}
    lines = [[title(m), *(change_and_harm(part, m) for part in parts.values())] for m in OURS]
    heads = [f"{k} ({len(np.unique(part.data))} sets)" for k, part in parts.items()]
    return markdown(["method", *heads], lines)


def shift_table() -> str:
    """Return, by kind of shift, change of NLL to pooled temperature scaling and share of harm."""
    results = load("shift_")
    kinds = list(dict.fromkeys(results.kind))
    lines = []
    for m in results.scores["nll"]:
        if m in UNSHIFTED:
            continue
        line = [title(m) if m == BASELINE else f"`{m}`"]
        for kind in [*kinds, None]:
            here = results.where((results.kind == kind) | (kind is None))
            change = relative(here, m)
            worse = np.where(np.isnan(change), np.nan, change > WORSE)
            parts = percent(mean(change, here.data)[0]), percent(mean(worse, here.data)[0], 0)
            line.append(" / ".join(filter(None, parts)))
        lines.append(line)
    heads = [f"{k} ({int((results.kind == k).sum())} cells)" for k in kinds]
    return markdown(["method", *heads, "all"], lines)


def relative(results: Results, method: str, score: str = "nll") -> Values:
    """Return the change of a score against pooled temperature scaling."""
    columns = results.scores[score]
    own = np.zeros(len(results.n)) if method == BASELINE else columns[method]
    return (1 + own) / (1 + columns[REFERENCE]) - 1


def read(name: str) -> list[dict[str, str]]:
    """Return the rows of a csv."""
    with (HERE / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def calarena_table() -> str:
    """Return the harm rates computed from CalArena's result files."""
    rows = [row for row in read("calarena") if row["calibrator"] in THEIRS]
    groups = list(dict.fromkeys(row["data"] for row in rows))
    cells: dict[str, dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: float(row["harm"])):
        cells.setdefault(row["calibrator"], {})[row["data"]] = percent(float(row["harm"]), 0)
    lines = [[name, *(found.get(g, "") for g in groups)] for name, found in cells.items()]
    return markdown(["calibrator in CalArena", *groups], lines)


def densenet_table() -> str:
    """Return the NLL of one experiment of CalArena, ours and the published ones."""
    rows = read("densenet")
    ours = {row["calibrator"]: row["nll"] for row in rows if row["who"] == "wildcal"}
    theirs = {row["calibrator"]: row["nll"] for row in rows if row["who"] != "wildcal"}
    pairs = {"auto": "", "sms": "SMS", "svs": "SVS", "dirichlet": "Dirichlet", "vector": "VS",
             "ts": "TS", "ets": "ETS"}  # fmt: skip
    lines = [
        [f"`{name}`", f"{float(ours[name]):.5f}", f"{float(theirs[other]):.5f}" if other else ""]
        for name, other in pairs.items()
    ]
    return markdown(["calibrator", "NLL, wildcal", "NLL, CalArena"], lines)


def auto_table() -> str:
    """Return harm, regret and rank of `auto`, then those without the data sets of SEEN."""
    lines = []
    for n in SIZES:
        everything = of_size(n)
        line = [f"{int(n):,}"]
        for results in (everything, everything.where(~np.isin(everything.data, SEEN))):
            regrets, harm = regret(results, AUTO), results.share("harmed", AUTO)
            rank = ranks(results, everywhere(results))
            order = sorted(rank, key=lambda m: mean(rank[m], results.data)[0])
            line += [
                str(len(np.unique(results.data))), percent(float(harm.mean()), 2),
                with_interval(regrets, results.data), f"{order.index(AUTO) + 1} of {len(order)}",
            ]  # fmt: skip
        lines.append(line)
    parts = ["data sets", "harm", "regret", "place"]
    return markdown(["labels", *parts, *(f"unseen: {part}" for part in parts)], lines)


MADE: Final[dict[str, Callable[[], str]]] = {
    "leaderboard": short_table,
    "leaderboard-1000": partial(main_table, "1000"),
    "leaderboard-auto": auto_table,
    "leaderboard-ours": our_table,
    "leaderboard-kinds": kinds_table,
    "leaderboard-limited": limited_table,
    "leaderboard-shift": shift_table,
    "leaderboard-calarena": calarena_table,
    "leaderboard-densenet": densenet_table,
}
