"""The result in a few sentences: the lowest NLL and ECE, and how certain they are."""

import math

from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.diagnostics import Diagnostics, by_condition, pool_reliability
from wildcal.metrics import METRICS
from wildcal.report.charts import shown


def summary(results: BenchmarkResults, suite: str) -> list[str]:
    """Return the sentences that stand first on the page."""
    sentences = [
        text for metric in ("nll", "ece") if (text := _lowest(results, suite, metric)) is not None
    ]
    if len(results.conditions(suite)) == 1:
        sentences.append("There are no shifted test samples: nothing is known about shift.")
    return sentences + _source(results, suite) + _pooled(results, suite)


def _lowest(results: BenchmarkResults, suite: str, metric: str) -> str | None:
    order = [
        m.name
        for m in results.ranked(suite, metric)
        if not math.isnan(results.average(suite, m.name, metric).value)
    ]
    if not order:
        return None
    best = order[0]
    average = results.average(suite, best, metric)
    over = "" if len(results.conditions(suite)) == 1 else "average "
    text = f"Lowest {over}{METRICS[metric].title}: {shown(best)}, {_number(metric, average.value)}"
    if average.interval is not None:
        level = results.suites[suite].level
        ends = " to ".join(_number(metric, v) for v in average.interval)
        kind = ", corrected for bias," if METRICS[metric].kind == "error" else ""
        text += f" ({100 * level:g} % interval{kind} {ends})"
    if "identity" in order and best != "identity":
        value = results.average(suite, "identity", metric).value
        text += f", {_number(metric, value)} uncalibrated"
    if len(order) == 1:
        return f"{text}."
    gap = results.difference(suite, order[1], best, metric)
    unit = " points" if METRICS[metric].is_percent else ""
    behind = f"{shown(order[1])} is {_plain(metric, gap.value)}{unit} behind"
    if gap.low is None or gap.high is None:
        return f"{text}. {behind}."
    ends = f"{_plain(metric, gap.low)} to {_plain(metric, gap.high)}"
    verdict = "a significant difference" if gap.is_significant else "not a significant difference"
    return f"{text}. {behind} (paired {ends}): {verdict}."


def _source(results: BenchmarkResults, suite: str) -> list[str]:
    """Return who is lowest on source samples, if it is another method than on average."""
    if len(results.conditions(suite)) == 1:
        return []
    values = {
        m.name: results.average(suite, m.name, "ece").conditions[0]
        for m in results.suites[suite].methods
    }
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    best = results.ranked(suite, "ece")[0].name
    if not known or best not in known:
        return []
    lowest = min(known, key=lambda name: known[name])
    if lowest == best:
        return []
    return [
        f"Without shift {shown(lowest)} has the lowest ECE, {_number('ece', known[lowest])};"
        f" {shown(best)} has {_number('ece', known[best])}."
    ]


def _pooled(results: BenchmarkResults, suite: str) -> list[str]:
    """Return why pooled conditions show a better ECE without calibration, where they do."""
    kept, found = results.suites[suite].diagnostics, results.suites[suite]
    best = results.ranked(suite, "ece")[0].name
    names = [m.name for m in found.methods]
    if kept is None or best == "identity" or "identity" not in names:
        return []
    worse = []
    for condition, splits in conditions_of(kept, found.suite).items():
        if len(splits) > 1:
            ece = {
                m: pool_reliability([kept.reliability[s][m] for s in splits]).ece
                for m in ("identity", best)
            }
            if ece["identity"] < ece[best]:
                worse.append(
                    f"{condition} ({_number('ece', ece['identity'])} uncalibrated,"
                    f" {_number('ece', ece[best])} {shown(best)})"
                )
    if not worse:
        return []
    return [
        "The averages measure each corruption alone. With all corruptions pooled, errors of"
        f" opposite sign cancel, and uncalibrated has the lower ECE at {', '.join(worse)}."
    ]


def conditions_of(kept: Diagnostics, suite: object) -> dict[str, list[str]]:
    """Return the names of the measured splits of each condition."""
    return by_condition(kept, {split.name: split for split in suite.test})  # type: ignore[attr-defined]


def _number(metric: str, value: float) -> str:
    return _plain(metric, value) + (" %" if METRICS[metric].is_percent else "")


def _plain(metric: str, value: float) -> str:
    return f"{100 * value:.2f}" if METRICS[metric].is_percent else f"{value:.4f}"
