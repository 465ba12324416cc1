"""The figures, each drawn on given axes; needs the `report` extra."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Final

import numpy as np

from wildcal.calibrators import CALIBRATORS
from wildcal.core.errors import MissingExtraError
from wildcal.report.calibrator_figures import ACCURACY_BY_BIN, ROWS
from wildcal.report.model import FigureArtifact, Panel
from wildcal.report.names import METHOD_TITLES
from wildcal.report.score_figures import ACCURACY, QUANTILES

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
except ImportError as error:
    raise MissingExtraError(
        'wildcal.report.plots needs matplotlib. Install it with: pip install "wildcal[report]"'
    ) from error

# Paul Tol's "muted" colors, which color-blind readers can tell apart; gray for no calibration.
COLORS: Final = {
    "Uncal": "#555555",
    "TS": "#88CCEE",
    "ETS": "#332288",
    "IRM": "#DDCC77",
    "IROvA": "#117733",
    "IROvATS": "#999933",
    "SPLINE": "#AA4499",
    "Energy w/o": "#CC6677",
    "Energy": "#882255",
}
_MARKERS: Final = dict(zip(COLORS, "os^vDP*Xd", strict=True))
# For methods beyond the paper's: Tol's "bright", "light" and "high-contrast" colors. Their number
# and that of the markers have no common divisor, so that no pair of the two comes back soon.
_MORE_COLORS: Final = (
    *("#4477AA", "#EE6677", "#228833", "#CCBB44", "#AA3377", "#EE8866", "#44BB99", "#77AADD"),
    *("#FFAABB", "#AAAA00", "#66CCEE", "#BBCC33", "#99DDFF"),
    *("#004488", "#997700", "#BBBBBB", "#EEDD88"),
)
_MORE_MARKERS: Final = "<>ph8HsoD^v"
# The registered ones have places of their own, so that each looks the same in every figure.
_REGISTERED: Final = tuple(name for name in CALIBRATORS if name not in METHOD_TITLES)
_PAIR: Final = ("#332288", "#DDAA33")
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.hashsalt": "wildcal",
    "text.parse_math": False,  # as in _as_written, for the title above all panels
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
    for series, color in zip(panel.series, _PAIR, strict=False):  # a group may be empty
        edges = [float(x) for x in series.x]
        axes.stairs(series.y[:-1], edges, fill=True, color=color, alpha=0.55, label=series.name)
    _frame(axes, panel)
    axes.set_title(panel.title, pad=20)
    legend = axes.legend(loc="lower center", bbox_to_anchor=(0.5, 0.98), ncols=2, frameon=False)
    _as_written(legend.get_texts())


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
    _name_ticks(axes, [str(x) for x in first.x])
    _frame(axes, panel)
    right = axes.twinx()
    right.spines["right"].set_visible(True)
    right.plot(places, by_name[ACCURACY].y, "o-", color="#882255")
    right.set_ylim(0, 105)
    right.set_ylabel("accuracy (%)", color="#882255")
    right.tick_params(axis="y", colors="#882255")


def severity_curves(axes: Axes, panel: Panel) -> None:
    """Draw the error of each method against severity."""
    styles = method_styles([series.name for series in panel.series])
    for series in panel.series:
        color, marker = styles[series.name]
        axes.plot(
            [float(x) for x in series.x],
            series.y,
            # Dashed lines tell methods apart whose colors are alike.
            linestyle="-" if series.name in COLORS else "--",
            marker=marker,
            markersize=4,
            linewidth=2.2 if series.name == "Energy" else 1.2,
            color=color,
            label=series.name,
        )
    _frame(axes, panel)
    axes.set_ylim(bottom=0)
    _legend_beside(axes)


def corruption_bars(axes: Axes, panel: Panel) -> None:
    """Draw the error of each method on each corruption, side by side."""
    kinds = list(dict.fromkeys(str(x) for series in panel.series for x in series.x))
    width = 0.84 / len(panel.series)
    styles = method_styles([series.name for series in panel.series])
    for i, series in enumerate(panel.series):
        places = [kinds.index(str(x)) - 0.42 + (i + 0.5) * width for x in series.x]
        axes.bar(places, series.y, width, color=styles[series.name][0], label=series.name)
    names = [kind.replace("_", " ") for kind in kinds]
    _name_ticks(axes, names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(kinds) - 0.4)
    _frame(axes, panel)
    _legend_beside(axes)


def ood_confidence_bars(axes: Axes, panel: Panel) -> None:
    """Draw the mean confidence of each method on rows of no class."""
    (series,) = panel.series
    names = [str(x) for x in series.x]
    styles = method_styles(names)
    bars = axes.bar(range(len(names)), series.y, color=[styles[name][0] for name in names])
    axes.bar_label(bars, fmt="%.1f", padding=1)
    axes.margins(y=0.12)
    _name_ticks(axes, names, rotation=30, ha="right", rotation_mode="anchor")
    _frame(axes, panel)


def reliability(axes: Axes, panel: Panel) -> None:
    """Draw accuracy against confidence with intervals, and the rows of each bin in gray."""
    by_name = {series.name: series for series in panel.series}
    behind = axes.twinx()
    rows = by_name[ROWS]
    edges = [float(x) for x in rows.x]
    behind.stairs(rows.y[:-1], edges, fill=True, color="#999999", alpha=0.35)
    # The counts keep to the lower part, below most of the curve.
    behind.set_ylim(0, 3 * max(rows.y) or 1)
    behind.set_ylabel("rows (gray)")
    # A twin lies above its axes; here it is the background.
    behind.patch.set(visible=True, facecolor=axes.get_facecolor())
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)

    axes.plot([0, 100], [0, 100], linestyle="--", color="#888888", linewidth=1)
    points = by_name[ACCURACY_BY_BIN]
    x, y = [float(x) for x in points.x], np.array(points.y)
    low, high = np.array(points.low, np.float64), np.array(points.high, np.float64)
    # At accuracy 0 or 1 the limit is the value, up to the last bit; a length is never negative.
    lengths = np.maximum([y - low, high - y], 0.0)
    axes.errorbar(x, y, lengths, marker="o", markersize=4, capsize=2, color=COLORS["Energy"])
    axes.set(xlim=(0, 100), ylim=(0, 100))
    _frame(axes, panel)


def temperature_curve(axes: Axes, panel: Panel) -> None:
    """Draw the temperature of each row against its negative energy."""
    (series,) = panel.series
    # Points and no line: for some methods the temperature is no function of the energy.
    x = [float(x) for x in series.x]
    # As an image even in an SVG, which ten thousand points would make slow.
    axes.plot(x, series.y, ".", markersize=3, color=COLORS["Energy"], rasterized=True)
    _frame(axes, panel)


KINDS: Final[dict[str, Callable[[Axes, Panel], None]]] = {
    function.__name__: function
    for function in (
        energy_histograms,
        energy_boxes,
        severity_curves,
        corruption_bars,
        ood_confidence_bars,
        reliability,
        temperature_curve,
    )
}


def method_styles(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the color and the marker of each method; the names are those that legends show.

    The paper's methods and the registered ones always look the same; others get what is next, in
    the order of `names`.
    """
    own = [name for name in names if name not in COLORS and name not in _REGISTERED]
    others = (*_REGISTERED, *dict.fromkeys(own))
    styles = {name: (COLORS[name], _MARKERS[name]) for name in COLORS}
    for i, name in enumerate(others):
        color = _MORE_COLORS[i % len(_MORE_COLORS)]
        styles[name] = (color, _MORE_MARKERS[i % len(_MORE_MARKERS)])
    return {name: styles[name] for name in names}


def draw(artifact: FigureArtifact) -> Figure:
    """Return the whole figure."""
    n_columns = min(artifact.n_columns, len(artifact.panels))
    n_rows = math.ceil(len(artifact.panels) / n_columns)
    width, height = _SIZES[artifact.kind]
    with rc_context(_SETTINGS):
        figure = Figure(
            figsize=(width * n_columns, height * n_rows + 0.4), dpi=150, layout="constrained"
        )
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        for axes in grid.flat[len(artifact.panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(grid.flat, artifact.panels, strict=False):
            KINDS[artifact.kind](axes, panel)
        figure.suptitle(fill(artifact.title, round(11 * width * n_columns)), fontsize=10)
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
    _as_written([axes.title])
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)


def _legend_beside(axes: Axes) -> None:
    legend = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    _as_written(legend.get_texts())


def _name_ticks(axes: Axes, names: Sequence[str], **style: Any) -> None:
    axes.set_xticks(range(len(names)), names, **style)
    _as_written(axes.get_xticklabels())


def _as_written(texts: Iterable[Text]) -> None:
    """Keep matplotlib from reading names as formulas: a dollar in a name is a dollar."""
    for text in texts:
        text.set_parse_math(False)
