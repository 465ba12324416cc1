"""The page in a sentence: which method to ship, and how sure that is."""

import math
from collections.abc import Sequence

import numpy as np

from wildcal._old.evaluation.protocol import FittedMethod, Results
from wildcal._old.report.page.marks import shown
from wildcal._old.report.page.markup import tag, words
from wildcal._old.tables import number


def verdict(results: Results, suite: str, order: Sequence[FittedMethod]) -> str:
    """Return what the table says, in words; as markup."""
    averages = {method.name: results.average(suite, method.name) for method in order}
    best = order[0]
    found = averages[best.name]
    if math.isnan(found.value) or len(results.conditions(suite)) == 1:
        return _clean_verdict(results, suite, order)
    text = f"Ship {_name(best)}: over clean and shifted rows its confidence is off by"
    interval = _interval(found.low, found.high, interval_level(results, suite))
    text += f" {percent(found.value)} points on average (ECE{interval})"
    plain = averages.get("identity")
    if plain is not None and best.name != "identity" and not math.isnan(plain.value):
        text += f", against {percent(plain.value)} uncalibrated"
    sentences = [text + "."]
    if len(order) > 1 and not math.isnan(averages[order[1].name].value):
        sentences.append(_lead(results, suite, best, order[1]))
    sentences.append(_knowledge(order, {n: a.value for n, a in averages.items()}))
    cleanest = min(order, key=lambda m: np.nan_to_num(averages[m.name].levels[0], nan=np.inf))
    if cleanest is not best:
        a, b = averages[cleanest.name].levels[0], found.levels[0]
        sentences.append(
            f"On clean rows alone {_name(cleanest)} is lowest:"
            f" {percent(a)} against {percent(b)} points."
        )
    sentences.append(_tuned_and_tested(results, suite))
    return " ".join(sentence for sentence in sentences if sentence)


def _tuned_and_tested(results: Results, suite: str) -> str:
    """Return which tested corruptions some methods were tuned on, if any; as markup."""
    both = results.tuned_and_tested(suite)
    if not both:
        return ""
    kinds = ", ".join(kind.replace("_", " ") for kind in both)
    return words(
        f"Methods that knew shifted sets were tuned on other rows under {kinds}, which are in"
        " the average."
    )


def _clean_verdict(results: Results, suite: str, order: Sequence[FittedMethod]) -> str:
    """Return what can be said without an average: who is lowest on clean rows, and why no more."""
    cells = [r for r in results.select(suite=suite, metric="ece") if r.corruption]
    if cells:
        why = "Not every corruption is there at every severity 1 to 5, so there is no average."
    else:
        why = "There are no shifted rows, so nothing is said about shift."
    value = results.average(suite, order[0].name).levels[0]
    if math.isnan(value):
        return f"There are no clean test rows, so methods cannot be ranked. {why}"
    shown_value = percent(value)
    level = [m for m in order if percent(results.average(suite, m.name).levels[0]) == shown_value]
    names = ", ".join(map(_name, level))
    lowest = f"{names} is lowest" if len(level) == 1 else f"{names} are level, and lowest"
    return f"On clean rows {lowest}: off by {shown_value} points (ECE). {why}"


def _lead(results: Results, suite: str, best: FittedMethod, second: FittedMethod) -> str:
    """Return how far the best is ahead of the second, and whether that is more than chance."""
    gap = results.behind(suite, second.name, best=best.name)
    if gap.interval is None:
        return ""
    ahead = f"{percent(gap.value)} points{_bracket(gap.interval.low, gap.interval.high)}"
    if gap.is_sure:
        return f"It is ahead of the next, {_name(second)}, by {ahead} on the same rows."
    return f"The next, {_name(second)}, is {ahead} behind, which may be chance."


def _knowledge(order: Sequence[FittedMethod], averages: dict[str, float]) -> str:
    """Return who is best of those that knew less, if the best knew more than others."""
    best = order[0]
    less = [
        m for m in order if m.knew.knows_less_than(best.knew) and not math.isnan(averages[m.name])
    ]
    if not less:
        return ""
    text = f"It knew more than others ({words(best.knew)})"
    if less[0] is order[1]:  # named in the sentence before
        return f"{text}, the next among them ({words(less[0].knew)})."
    text += f"; the best that knew less is {_name(less[0])} ({words(less[0].knew)})"
    return text + f" with {percent(averages[less[0].name])}."


def _name(method: FittedMethod) -> str:
    return tag("strong", words(shown(method.name)))


def interval_level(results: Results, suite: str) -> str:
    """Return the level of the intervals of a run, in words; empty where there are none."""
    drawn = results.suites[suite].replicates
    return "" if drawn is None else f"{100 * drawn.level:g} %"


def _interval(low: float | None, high: float | None, level: str) -> str:
    if low is None or high is None:
        return ""
    return f"; {level} interval {percent(low)} to {percent(high)}"


def _bracket(low: float, high: float) -> str:
    return f" ({percent(low)} to {percent(high)})"


def percent(value: float) -> str:
    """Return a fraction in percent, as tables show it."""
    return number(value).text
