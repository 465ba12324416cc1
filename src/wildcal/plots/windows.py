"""How much a window of unlabeled rows is worth, by its size."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from wildcal.core.checks import check_level, check_scores
from wildcal.plots.canvas import axis
from wildcal.report.names import method_title
from wildcal.report.style import CURVES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Bars of methods side by side, as a factor of the size.
_APART: Final = 1.04
_MARKERS: Final = "os^vDPX"


def window_regimes(
    errors: Mapping[str, Mapping[int, ArrayLike]],
    *,
    level: float = 0.95,
    y_label: str = "excess ECE (%)",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the error of each method by the size of the windows it reads.

    Parameters
    ----------
    errors
        By method and rows in a window: an error as a fraction, one number or several, such as one
        for each kind of shift. Of several the mean is drawn, with its Student interval.
    level
        Level of these intervals.
    y_label
        What the errors are.
    ax
        Where to draw; a new axis if left out.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> errors = {"ts": {8: [0.05, 0.07], 64: [0.06, 0.08]}, "context": {8: 0.02, 64: 0.01}}
    >>> ax = window_regimes(errors, ax=Figure().subplots())
    >>> [line.get_ydata(orig=False).round(1).tolist() for line in ax.get_lines()[1::3]]
    [[6.0, 7.0], [2.0, 1.0]]
    """
    if not errors or not all(errors.values()):
        raise ValueError("errors must have at least one method, and each at least one size.")
    from wildcal.report.plots import as_written, legend_beside

    mine = axis(ax)
    mine.axhline(0, color="#888888", linewidth=0.8)
    titles = {name: method_title(name) for name in errors}
    for i, (name, by_size) in enumerate(errors.items()):
        sizes = sorted(by_size)
        means, reach = np.transpose([_mean(by_size[size], name, level) for size in sizes])
        mine.errorbar(
            np.array(sizes) * _APART ** (i - (len(errors) - 1) / 2),
            100 * means,
            100 * reach,
            marker=_MARKERS[i % len(_MARKERS)],
            markersize=4,
            capsize=2,
            linewidth=1.4,
            color=CURVES[i % len(CURVES)],
            label=titles[name],
        )
    ticks = sorted({size for by_size in errors.values() for size in by_size})
    mine.set_xscale("log", base=2)
    mine.set_xticks(ticks, [f"{size:,}" for size in ticks])
    mine.minorticks_off()
    mine.set(xlabel="rows in a window", ylabel=y_label)
    as_written([mine.yaxis.label])
    legend_beside(mine)
    return mine


def _mean(values: ArrayLike, name: str, level: float) -> tuple[float, float]:
    """Return the mean of some numbers and half the width of its interval, 0 for one number."""
    found = check_scores(np.atleast_1d(np.asarray(values, np.float64)), f"errors of {name}")
    n = len(found)
    if not n:
        raise ValueError(f"errors of {name} must have at least one number for each size.")
    quantile = stdtrit(n - 1, 0.5 + check_level(level) / 2) if n > 1 else 0.0
    spread = found.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    return float(found.mean()), float(quantile * spread)
