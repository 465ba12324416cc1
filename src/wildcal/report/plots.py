"""The figures, each drawn on given axes; needs the `report` extra."""

import math
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any, Final

import numpy as np

from wildcal.core.errors import MissingExtraError
from wildcal.report.model import FigureArtefact, Panel
from wildcal.report.score_figures import ACCURACY, QUANTILES

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError(
        'wildcal.report.plots needs matplotlib. Install it with: pip install "wildcal[report]"'
    ) from error

# Paul Tol's "muted" colours, which colour-blind readers can tell apart; grey for no calibration.
COLOURS: Final = {
    "Uncal": "#555555",
    "TS": "#88CCEE",
    "ETS": "#332288",
    "IRM": "#DDCC77",
    "IROvA": "#117733",
    "IROvATS": "#999933",
    "SPLINE": "#AA4499",
    "Ours w/o": "#CC6677",
    "Ours": "#882255",
}
_MARKERS: Final = dict(zip(COLOURS, "os^vDP*Xd", strict=True))
_PAIR: Final = ("#332288", "#DDAA33")
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.hashsalt": "wildcal",
    "text.parse_math": False,  # a dollar in a network's name is a dollar
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# Inches for one panel.
_SIZES: Final = {
    "energy_histograms": (3.1, 2.6),
    "energy_boxes": (4.6, 3.2),
    "severity_curves": (4.8, 3.2),
    "corruption_bars": (13.0, 3.4),
    "ood_confidence_bars": (4.6, 3.0),
}


def energy_histograms(axes: Axes, panel: Panel) -> None:
    """Draw the densities of one score for two groups."""
    for series, colour in zip(panel.series, _PAIR, strict=True):
        edges = [float(x) for x in series.x]
        axes.stairs(series.y[:-1], edges, fill=True, color=colour, alpha=0.55, label=series.name)
    _frame(axes, panel)
    axes.set_title(panel.title, pad=20)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 0.98), ncols=2, frameon=False)


def energy_boxes(axes: Axes, panel: Panel) -> None:
    """Draw quartiles and tails of the negative energy, and the accuracy on an axis of its own."""
    by_name = {series.name: series for series in panel.series}
    first = by_name[next(iter(QUANTILES))]
    tails = [by_name[name].y for name in QUANTILES]
    stats = [
        {"whislo": a, "q1": b, "med": c, "q3": d, "whishi": e, "fliers": []}
        for a, b, c, d, e in zip(*tails, strict=True)
    ]
    places = np.arange(len(first.x))
    axes.bxp(
        stats,
        positions=places,
        widths=0.55,
        patch_artist=True,
        boxprops={"facecolor": "#88CCEE"},
        medianprops={"color": "black"},
    )
    axes.set_xticks(places, [str(x) for x in first.x])
    _frame(axes, panel)
    right = axes.twinx()
    right.spines["right"].set_visible(True)
    right.plot(places, by_name[ACCURACY].y, "o-", color="#882255")
    right.set_ylim(0, 105)
    right.set_ylabel("accuracy (%)", color="#882255")
    right.tick_params(axis="y", colors="#882255")


def severity_curves(axes: Axes, panel: Panel) -> None:
    """Draw the error of each method against severity."""
    for series in panel.series:
        axes.plot(
            [float(x) for x in series.x],
            series.y,
            marker=_MARKERS[series.name],
            markersize=4,
            linewidth=2.2 if series.name == "Ours" else 1.2,
            color=COLOURS[series.name],
            label=series.name,
        )
    _frame(axes, panel)
    axes.set_ylim(bottom=0)
    _legend_beside(axes)


def corruption_bars(axes: Axes, panel: Panel) -> None:
    """Draw the error of each method on each corruption, side by side."""
    kinds = list(dict.fromkeys(str(x) for series in panel.series for x in series.x))
    width = 0.84 / len(panel.series)
    for i, series in enumerate(panel.series):
        places = [kinds.index(str(x)) - 0.42 + (i + 0.5) * width for x in series.x]
        axes.bar(places, series.y, width, color=COLOURS[series.name], label=series.name)
    names = [kind.replace("_", " ") for kind in kinds]
    axes.set_xticks(range(len(kinds)), names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(kinds) - 0.4)
    _frame(axes, panel)
    _legend_beside(axes)


def ood_confidence_bars(axes: Axes, panel: Panel) -> None:
    """Draw the mean confidence of each method on rows of no class."""
    (series,) = panel.series
    names = [str(x) for x in series.x]
    bars = axes.bar(names, series.y, color=[COLOURS[name] for name in names])
    axes.bar_label(bars, fmt="%.1f", padding=1)
    axes.margins(y=0.12)
    axes.tick_params(axis="x", rotation=30)
    _frame(axes, panel)


KINDS: Final[dict[str, Callable[[Axes, Panel], None]]] = {
    function.__name__: function
    for function in (
        energy_histograms,
        energy_boxes,
        severity_curves,
        corruption_bars,
        ood_confidence_bars,
    )
}


def draw(artefact: FigureArtefact) -> Figure:
    """Return the whole figure."""
    n_columns = min(artefact.n_columns, len(artefact.panels))
    n_rows = math.ceil(len(artefact.panels) / n_columns)
    width, height = _SIZES[artefact.kind]
    with rc_context(_SETTINGS):
        figure = Figure(
            figsize=(width * n_columns, height * n_rows + 0.4), dpi=150, layout="constrained"
        )
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        for axes in grid.flat[len(artefact.panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(grid.flat, artefact.panels, strict=False):
            KINDS[artefact.kind](axes, panel)
        figure.suptitle(fill(artefact.title, round(11 * width * n_columns)), fontsize=10)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the form that the file's ending names, without dates."""
    metadata: dict[str, dict[str, Any]] = {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    with rc_context(_SETTINGS):
        figure.savefig(path, metadata=metadata[path.suffix])


def _frame(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)


def _legend_beside(axes: Axes) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
