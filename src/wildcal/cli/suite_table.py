"""Methods on whole suites, as tables for a terminal."""

from collections.abc import Mapping, Sequence

import numpy as np

from wildcal.cli.output import print_table, progress_bar, say
from wildcal.evaluation.protocol import Average, Method, Results, run_protocol
from wildcal.io.suite import Suite

METRICS = ("accuracy", "mean_confidence", "ece", "ood_auroc")
_BARS = "▁▂▃▄▅▆▇█"
_CAPTION = (
    "ECE in percent: of clean rows (0), the mean over corruption types at severity 1 to 5, and the"
    " mean of the six with its 95 % interval.\nBehind: difference to the best on the same resampled"
    " images; not sure: its 95 % interval holds 0. Knew: what the method used."
)


def compare_on_suites(
    suites: Mapping[str, Suite], methods: Sequence[Method], *, n_boot: int, n_bins: int = 15
) -> Results:
    """Run the protocol with a progress bar, and say what could not be used."""
    total = sum(split.rows for suite in suites.values() for split in suite.tests())
    with progress_bar("Comparing", total) as bar:
        results = run_protocol(
            suites,
            methods,
            metrics=METRICS,
            n_bins=n_bins,
            n_boot=n_boot,
            progress=lambda doing, rows: bar.update(
                bar.task_ids[0], advance=rows, description=doing
            ),
        )
    for what, reason in results.skipped.items():
        say(f"warning: {what} was left out: {reason}")
    for name, found in results.suites.items():
        for method, reason in found.failed.items():
            say(f"warning: {method} failed on {name}: {reason}")
    return results


def print_suites(results: Results) -> None:
    """Print a table for each suite, the method with the lowest average ECE first."""
    for name in results.suites:
        print_table(
            header(results, name),
            rows(results, name, markup=True),
            title=name,
            caption=_CAPTION + _seen(results, name),
            words=2,
            # What a method knew goes last: without it, numbers would mislead.
            spare=["by severity", "1", "2", "4", "3", *_set_heads(results, name), "knew"],
        )


def _seen(results: Results, suite: str) -> str:
    """Return which of the tested types some methods were tuned on, for the caption."""
    both = results.tuned_and_tested(suite)
    if not both:
        return ""
    return (
        f"\nMethods that knew shifted sets were tuned on other images under {', '.join(both)},"
        " which are in the average."
    )


def header(results: Results, suite: str) -> list[str]:
    """Return the heads of the columns of one suite's table."""
    sets = _set_heads(results, suite)
    return ["method", "knew", "average ECE", "behind", *"012345", "by severity", *sets]


def _set_heads(results: Results, suite: str) -> list[str]:
    return [f"{what} {name}" for name in _strangers(results, suite) for what in ("conf.", "AUROC")]


def rows(results: Results, suite: str, *, markup: bool = False) -> list[list[str]]:
    """Return a row for each method, the lowest average first; `markup` puts the best in bold."""
    found = results.suites[suite]
    averages = {m.name: results.average(suite, m.name) for m in found.methods}
    order = results.ranked(suite)
    if not order:
        return []
    best = order[0].name
    highest = np.nanmax([[*a.levels, 0.0] for a in averages.values()])
    lines: list[list[str]] = []
    for method in order:
        average = averages[method.name]
        line = [
            method.name,
            method.knew.words(),
            _with_interval(average),
            _behind(results, suite, method.name, best),
            *(_percent(level) for level in average.levels),
            _spark(average.levels, float(highest)),
        ]
        for split in _strangers(results, suite):
            for metric in ("mean_confidence", "ood_auroc"):
                line.append(_percent(results.record(suite, method.name, split, metric).value, 1))
        bold = markup and not lines and not np.isnan(average.value)
        lines.append([f"[bold]{cell}[/]" for cell in line] if bold else line)
    return lines


def _strangers(results: Results, suite: str) -> list[str]:
    """Return the semantic test sets of a suite."""
    found = results.select(suite=suite, shift="semantic", metric="ood_auroc")
    return list(dict.fromkeys(record.split for record in found))


def _behind(results: Results, suite: str, method: str, best: str) -> str:
    if np.isnan(results.average(suite, best).value):
        return "-"
    if method == best:
        return "best"
    average = results.average(suite, method)
    if average.low is None:  # nothing was resampled, or a level is missing
        return _signed(average.value - results.average(suite, best).value)
    difference = results.difference(suite, method, best)
    return _signed(difference.value) + (" (not sure)" if difference.low <= 0 else "")


def _with_interval(average: Average) -> str:
    if average.low is None or average.high is None:
        return _percent(average.value)
    return f"{_percent(average.value)} ({_percent(average.low)} to {_percent(average.high)})"


def _percent(value: float, digits: int = 2) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.{digits}f}"


def _signed(value: float) -> str:
    return "-" if np.isnan(value) else f"+{100 * value:.2f}"


def _spark(values: Sequence[float], highest: float) -> str:
    """Return a small bar chart; the bars of all methods have one scale."""
    scale = (len(_BARS) - 1) / highest if highest else 0.0
    return "".join(" " if np.isnan(v) else _BARS[round(v * scale)] for v in values)
