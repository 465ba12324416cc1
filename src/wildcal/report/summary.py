"""Summary sentences of the report page."""

import math
from collections.abc import Iterator

from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.diagnostics import by_condition, pool_reliability
from wildcal.metrics import METRICS
from wildcal.report.charts import method_label
from wildcal.tables import number


def summary(results: BenchmarkResults, suite: str) -> list[str]:
    """Return the sentences that stand first on the page."""
    sentences = [*_lowest(results, suite, "nll"), *_lowest(results, suite, "ece")]
    if len(results.conditions(suite)) == 1:
        return [*sentences, "There are no shifted test samples: nothing is known about shift."]
    return [*sentences, *_source(results, suite), *_pooled(results, suite)]


def _lowest(results: BenchmarkResults, suite: str, metric: str) -> Iterator[str]:
    """Yield the best average, and whether the next method differs significantly."""
    found = {m.name: results.average(suite, m.name, metric) for m in results.ranked(suite, metric)}
    found = {name: average for name, average in found.items() if not math.isnan(average.value)}
    if not found:
        return
    best, *others = found
    over = "" if len(results.conditions(suite)) == 1 else "average "
    value = _text(metric, found[best].value)
    text = f"Lowest {over}{METRICS[metric].title}: {method_label(best)}, {value}"
    if interval := found[best].interval:
        level = results.suites[suite].level
        kind = ", corrected for bias," if METRICS[metric].kind == "error" else ""
        ends = " to ".join(_text(metric, end) for end in interval)
        text += f" ({100 * level:g} % interval{kind} {ends})"
    if "identity" in others:
        text += f", {_text(metric, found['identity'].value)} uncalibrated"
    if others:
        gap = results.difference(suite, others[0], best, metric)
        text += f". {method_label(others[0])} is {_text(metric, gap.value, ' points')} behind"
        if gap.interval:
            ends = " to ".join(_text(metric, end, "") for end in gap.interval)
            verdict = "a" if gap.is_significant else "not a"
            text += f" (paired {ends}): {verdict} significant difference"
    yield f"{text}."


def _source(results: BenchmarkResults, suite: str) -> Iterator[str]:
    """Yield the method with the lowest ECE on source samples, if it is not the best on average."""
    values = {
        m.name: results.average(suite, m.name, "ece").conditions[0]
        for m in results.ranked(suite, "ece")
    }
    best, lowest = next(iter(values)), min(values, key=lambda name: values[name])
    if values[lowest] < values[best]:
        low, high = _text("ece", values[lowest]), _text("ece", values[best])
        yield (
            f"Without shift {method_label(lowest)} has the lowest ECE, {low};"
            f" {method_label(best)} has {high}."
        )


def _pooled(results: BenchmarkResults, suite: str) -> Iterator[str]:
    """Yield the severities at which pooling makes the uncalibrated ECE the lower one."""
    found = results.suites[suite]
    order = [m.name for m in results.ranked(suite, "ece")]
    kept, best = found.diagnostics, order[0]
    if kept is None or "identity" not in order[1:]:
        return
    worse = []
    for condition, splits in by_condition(kept, {s.name: s for s in found.suite.test}).items():
        before, after = (
            pool_reliability([kept.reliability[s][m] for s in splits]).ece
            for m in ("identity", best)
        )
        if len(splits) > 1 and before < after:
            low, high = _text("ece", before), _text("ece", after)
            worse.append(f"{condition} ({low} uncalibrated, {high} {method_label(best)})")
    if worse:
        yield (
            "The averages measure each corruption alone. With all corruptions pooled, errors of"
            f" opposite sign cancel, and uncalibrated has the lower ECE at {', '.join(worse)}."
        )


def _text(metric: str, value: float, unit: str = " %") -> str:
    """Return a number as tables show it, with its unit if the metric is a percentage."""
    percent = METRICS[metric].is_percent
    return number(value, percent=percent).text + unit * percent
