"""The figures, each drawn on given axes; needs the `report` extra."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Final

import numpy as np

from wildcal._old.core.errors import MissingExtraError
from wildcal._old.report.calibrator_figures import ACCURACY_BY_BIN, ROWS
from wildcal._old.report.model import FigureArtifact, Panel
from wildcal._old.report.score_figures import ACCURACY, QUANTILES
from wildcal._old.report.style import COLORS, CURVES, GROUPS, STYLE, method_styles

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
except ImportError as error:
    raise MissingExtraError(
        'wildcal._old.report.plots needs matplotlib. Install it with: pip install "wildcal[report]"'
    ) from error

_CURVE: Final = "wildcal reliability"
_CURVE_MARKERS: Final = "os^vDP"
# Inches for one panel.
_SIZES: Final = {
    "energy_histograms": (3.1, 2.6),
    "energy_boxes": (4.6, 3.2),
    "severity_curves": (4.8, 3.2),
    "corruption_bars": (13.0, 3.4),
    "ood_confidence_bars": (4.6, 3.0),
}


def energy_histograms(axes: Axes, panel: Panel) -> None:
    """Draw the densities of one score for two or three groups."""
    for series, color in zip(panel.series, GROUPS, strict=False):  # a group may be empty
        edges = [float(x) for x in series.x]
        axes.stairs(series.y[:-1], edges, fill=True, color=color, alpha=0.45, label=series.name)
        axes.stairs(series.y[:-1], edges, color=color, linewidth=1)
    frame(axes, panel)
    legend_above(axes)


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
    name_ticks(axes, [str(x) for x in first.x])
    frame(axes, panel)
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
    frame(axes, panel)
    axes.set_ylim(bottom=0)
    legend_beside(axes)


def corruption_bars(axes: Axes, panel: Panel) -> None:
    """Draw the error of each method on each corruption, side by side."""
    kinds = list(dict.fromkeys(str(x) for series in panel.series for x in series.x))
    width = 0.84 / len(panel.series)
    styles = method_styles([series.name for series in panel.series])
    for i, series in enumerate(panel.series):
        places = [kinds.index(str(x)) - 0.42 + (i + 0.5) * width for x in series.x]
        axes.bar(places, series.y, width, color=styles[series.name][0], label=series.name)
    names = [kind.replace("_", " ") for kind in kinds]
    name_ticks(axes, names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(kinds) - 0.4)
    frame(axes, panel)
    legend_beside(axes)


def ood_confidence_bars(axes: Axes, panel: Panel) -> None:
    """Draw the mean confidence of each method on rows of no class."""
    (series,) = panel.series
    names = [str(x) for x in series.x]
    styles = method_styles(names)
    bars = axes.bar(range(len(names)), series.y, color=[styles[name][0] for name in names])
    axes.bar_label(bars, fmt="%.1f", padding=1)
    axes.margins(y=0.12)
    name_ticks(axes, names, rotation=30, ha="right", rotation_mode="anchor")
    frame(axes, panel)


def reliability(
    axes: Axes, panel: Panel, *, label: str | None = None, color: str | None = None
) -> None:
    """Draw accuracy against confidence with intervals, and the rows of each bin behind.

    Curves with labels may be laid over each other, the rows of each in its own color.
    """
    by_name = {series.name: series for series in panel.series}
    n_before = sum(line.get_gid() == _CURVE for line in axes.lines)
    color = CURVES[n_before % len(CURVES)] if color is None else color
    behind = _rows_axis(axes) if n_before else _new_rows_axis(axes)
    rows = by_name[ROWS]
    edges = [float(x) for x in rows.x]
    if label is None and not n_before:
        behind.stairs(rows.y[:-1], edges, fill=True, color="#999999", alpha=0.35)
        behind.set_ylabel("rows (gray)")
    else:
        behind.stairs(rows.y[:-1], edges, color=color, linewidth=1, alpha=0.6)
        behind.set_ylabel("rows (steps)")
    # The counts keep to the lower part, below most of the curve.
    top = behind.get_ylim()[1] if n_before else 1.0
    behind.set_ylim(0, max(3 * max(rows.y), top))

    if not n_before:
        axes.plot([0, 100], [0, 100], linestyle="--", color="#888888", linewidth=1)
        axes.set(xlim=(0, 100), ylim=(0, 100))
        frame(axes, panel)
    points = by_name[ACCURACY_BY_BIN]
    x, y = [float(x) for x in points.x], np.array(points.y)
    low, high = np.array(points.low, np.float64), np.array(points.high, np.float64)
    # At accuracy 0 or 1 the limit is the value, up to the last bit; a length is never negative.
    lengths = np.maximum([y - low, high - y], 0.0)
    marker = _CURVE_MARKERS[n_before % len(_CURVE_MARKERS)]
    drawn = axes.errorbar(
        x, y, lengths, marker=marker, markersize=4, capsize=2, color=color, label=label
    )
    drawn.lines[0].set_gid(_CURVE)
    if label is not None:
        axes.set_title("")
        as_written(axes.legend(frameon=True, edgecolor="none", framealpha=0.8).get_texts())


def _new_rows_axis(axes: Axes) -> Axes:
    """Return a second axis for counts, which lies behind the first."""
    behind = axes.twinx()
    behind.set_label(f"rows behind {id(axes)}")
    # A twin lies above its axes; here it is the background.
    behind.patch.set(visible=True, facecolor=axes.get_facecolor())
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    return behind


def _rows_axis(axes: Axes) -> Axes:
    """Return the second axis of an earlier curve."""
    wanted = f"rows behind {id(axes)}"
    return next(one for one in reversed(axes.figure.axes) if one.get_label() == wanted)


def temperature_curve(axes: Axes, panel: Panel) -> None:
    """Draw the temperature of each row against its negative energy."""
    (series,) = panel.series
    # Points and no line: for some methods the temperature is no function of the energy.
    x = [float(x) for x in series.x]
    # As an image even in an SVG, which ten thousand points would make slow.
    axes.plot(x, series.y, ".", markersize=3, color=COLORS["Energy"], rasterized=True)
    frame(axes, panel)


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


def draw(artifact: FigureArtifact) -> Figure:
    """Return the whole figure."""
    n_columns = min(artifact.n_columns, len(artifact.panels))
    n_rows = math.ceil(len(artifact.panels) / n_columns)
    width, height = _SIZES[artifact.kind]
    with rc_context(STYLE):
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
    with rc_context(STYLE):
        figure.savefig(path, metadata=metadata[path.suffix])


def frame(axes: Axes, panel: Panel) -> None:
    """Write the title and the labels of the axes."""
    axes.set_title(panel.title)
    as_written([axes.title])
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)


def legend_above(axes: Axes) -> None:
    """Put the legend between the title and the axes, where it hides nothing."""
    handles, _ = axes.get_legend_handles_labels()
    legend = axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 0.98), ncols=len(handles), frameon=False
    )
    as_written(legend.get_texts())
    axes.set_title(axes.get_title(), pad=20)


def legend_beside(axes: Axes) -> None:
    """Put the legend to the right."""
    legend = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    as_written(legend.get_texts())


def name_ticks(axes: Axes, names: Sequence[str], **style: Any) -> None:
    """Name the places 0, 1, ... of the horizontal axis."""
    axes.set_xticks(range(len(names)), names, **style)
    as_written(axes.get_xticklabels())


def as_written(texts: Iterable[Text]) -> None:
    """Keep matplotlib from reading names as formulas: a dollar in a name is a dollar."""
    for text in texts:
        text.set_parse_math(False)
