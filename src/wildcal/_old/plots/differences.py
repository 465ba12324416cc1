"""Methods against one of them on the same rows: differences with paired intervals."""

from typing import TYPE_CHECKING

import numpy as np

from wildcal._old.evaluation.protocol import Results
from wildcal._old.evaluation.views import Comparison
from wildcal._old.metrics.interval import PairedDifference, paired_interval
from wildcal._old.metrics.registry import METRICS
from wildcal._old.plots.canvas import axis
from wildcal._old.plots.results import one_of, one_suite
from wildcal._old.report.names import method_title
from wildcal._old.report.style import COLORS, CURVES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def forest(
    found: Comparison | Results,
    baseline: str | None = None,
    *,
    metric: str = "ece",
    suite: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how far each method is from one of them, with paired intervals.

    Both are measured on the same resampled rows, so that luck which they share cancels out. Filled
    points are differences whose interval leaves out 0; hollow ones may be chance.

    Parameters
    ----------
    found
        What `compare` or `run_protocol` returned, with resampled rows (n_boot > 0).
    baseline
        The method to compare with, by default the best.
    metric
        A metric that was resampled. Of a protocol, its average over severities.
    suite
        Which suite of a protocol, where there are several.
    ax
        Where to draw; a new axis if left out.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from wildcal import EnergyScaling, Identity, TemperatureScaling, compare
    >>> from wildcal._old.testing import make_suite
    >>> drawn = make_suite(seed=0)
    >>> methods = {"identity": Identity(), "ts": TemperatureScaling(), "energy": EnergyScaling()}
    >>> found = compare(methods, drawn.tuning, drawn.shifted, n_boot=50)
    >>> ax = forest(found, "identity", ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['Energy', 'TS', 'Uncal']
    """
    order, pairs = _differences(found, baseline, metric, suite)
    base = next(name for name in order if pairs[name] is None)
    info = METRICS[metric]
    scale, unit = (100, "points") if info.percent else (1, "")
    from wildcal._old.report.plots import as_written

    mine = axis(ax)
    mine.axvline(0, color="#888888", linestyle="--", linewidth=1)
    level = 0.95
    for place, name in enumerate(order):
        pair = pairs[name]
        if pair is None:
            mine.plot(0, place, marker="D", markersize=5, color=COLORS["Uncal"])
            continue
        level = pair.level
        low, value, high = (scale * x for x in (pair.low, pair.value, pair.high))
        sure = low > 0 or high < 0
        mine.errorbar(
            value,
            place,
            xerr=[[max(value - low, 0.0)], [max(high - value, 0.0)]],
            marker="o",
            markersize=5,
            capsize=3,
            color=CURVES[0],
            markerfacecolor=CURVES[0] if sure else "white",
        )
    mine.set_yticks(range(len(order)), [method_title(name) for name in order])
    mine.set_ylim(len(order) - 0.5, -0.5)  # the best on top
    words = f"{info.title.strip()} minus that of {method_title(base)}"
    mine.set_xlabel(f"{words} ({unit})" if unit else words)
    mine.set_title(f"paired {100 * level:g} % intervals; hollow: may be chance")
    as_written([*mine.get_yticklabels(), mine.xaxis.label])
    return mine


def _differences(
    found: Comparison | Results, baseline: str | None, metric: str, suite: str | None
) -> tuple[list[str], dict[str, PairedDifference | None]]:
    """Return the methods, the best first, and the difference of each; None for the baseline."""
    known = [name for name, info in METRICS.items() if info.drawn is not None]
    one_of("metric with intervals", metric, known)
    lacks = f"there are no resampled rows of {metric}; ask for it, with n_boot > 0."
    if isinstance(found, Results):
        name = one_suite(found, suite)
        order = [method.name for method in found.ranked(name, metric)]
        base = one_of(f"method of {name}", baseline or order[0], order)
        if found.drawn(name, base, metric) is None:
            raise ValueError(lacks)
        return order, {
            other: None if other == base else found.difference(name, other, base, metric)
            for other in order
        }
    sign = -1 if METRICS[metric].better == "higher" else 1
    measured = {m.name: m.evaluation for m in found.methods}
    if not all(metric in mine.drawn for mine in measured.values()):
        raise ValueError(lacks)
    order = sorted(measured, key=lambda name: sign * measured[name][metric])
    base = one_of("method", baseline or (order[0] if order else None), order)
    first = measured[base]
    return order, {
        name: None
        if name == base
        else paired_interval(
            mine[metric] - first[metric],
            np.asarray(mine.drawn[metric] - first.drawn[metric]),
            mine.level,
        )
        for name, mine in ((name, measured[name]) for name in order)
    }
