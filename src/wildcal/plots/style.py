"""The style of all figures: colors, sizes for print, grids of panels, vector files."""

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wildcal.core.exceptions import InputError, needs_extra
from wildcal.io.atomic import atomic_write

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wildcal.plots.display import Display

COLUMN: Final = 3.35
"""Width of one column of a paper, in inches."""
PAGE: Final = 7.0
"""Width of a page of a paper, in inches."""
GRAY: Final = "#777777"
CURVES: Final = ("#882255", "#4477AA", "#999933", "#117733", "#DDAA33", "#332288")
"""Colors of curves on one axis."""
REFERENCE: Final[dict[str, Any]] = {"color": GRAY, "lw": 0.8, "ls": (0, (4, 3))}
"""Style of lines at a value to compare with."""
GROUPS: Final = ("#332288", "#DDAA33", "#BB5566")
"""Colors of groups of samples: correct, incorrect, OOD. They also differ in lightness."""

STYLE: Final = str(files("wildcal.plots") / "wildcal.mplstyle")
"""Style sheet of matplotlib: ``plt.style.use(STYLE)``, or ``with plt.style.context(STYLE):``."""


class MethodStyle(NamedTuple):
    """Color, marker and line of a method."""

    color: str
    marker: str
    line: Any
    """A line style of matplotlib."""
    width: float


# Colors of Paul Tol, which color-blind readers distinguish; the energy methods are the darkest red.
_METHODS: Final = {
    "identity": MethodStyle("#555555", "o", (0, (1, 1)), 1.4),
    "ts": MethodStyle("#4477AA", "s", "-", 1.9),
    "ets": MethodStyle("#332288", "^", (0, (4, 2)), 1.1),
    "irm": MethodStyle("#B8860B", "v", "-", 1.0),
    "irova": MethodStyle("#117733", "D", "-", 1.0),
    "irovats": MethodStyle("#66A61E", "P", (0, (4, 2)), 1.0),
    "spline": MethodStyle("#AA4499", "*", (0, (3, 1, 1, 1)), 1.2),
    "energy-no-ood": MethodStyle("#EE6677", "X", (0, (4, 2)), 1.4),
    "energy": MethodStyle("#882255", "d", "-", 2.2),
}
_ALIASES: Final = {"uncal": "identity", "uncalibrated": "identity", "energy w/o": "energy-no-ood"}
_OTHER_COLORS: Final = ("#228833", "#CCBB44", "#66CCEE", "#AA3377", "#EE8866", "#004488", "#BBBBBB")
_OTHER_MARKERS: Final = "<>phH8ds^vo"
# Without dates: equal figures are equal files.
_METADATA: Final[dict[str, dict[str, Any]]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def method_styles(names: Iterable[str]) -> dict[str, MethodStyle]:
    """Return the style of each method; those of the paper always have the same one.

    Examples
    --------
    >>> method_styles(["mine", "TS"])["TS"] == method_styles(["ts"])["ts"]
    True
    """
    styles = {}
    others = zip(cycle(_OTHER_COLORS), cycle(_OTHER_MARKERS), strict=False)
    for name in dict.fromkeys(names):
        key = _ALIASES.get(name.lower(), name.lower())
        styles[name] = _METHODS.get(key) or MethodStyle(*next(others), (0, (5, 1)), 1.4)
    return styles


def context() -> "AbstractContextManager[None]":
    """Return a context in which matplotlib uses the style and draws dollar signs as text."""
    with needs_extra("wildcal.plots", "report"):
        from matplotlib import style
    return style.context([STYLE, {"text.parse_math": False}])


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure in the style, not registered with pyplot."""
    with context():
        from matplotlib.figure import Figure

        return Figure(figsize=(width, height), layout="constrained")


def grid(
    displays: Mapping[str, "Display"],
    *,
    n_columns: int = 3,
    width: float = PAGE,
    height: float | None = None,
) -> "Figure":
    """Draw displays of one kind side by side, with common axes and one legend.

    Parameters
    ----------
    displays
        What to draw, by the titles of the panels.
    n_columns
        Panels in a row.
    width
        Width of the figure in inches; `COLUMN` and `PAGE` are those of papers.
    height
        Height of a panel in inches.

    Examples
    --------
    >>> from wildcal.plots import ReliabilityDisplay
    >>> before = ReliabilityDisplay.from_predictions([True, False], [0.9, 0.8], n_bootstrap=0)
    >>> len(grid({"before": before, "after": before}, n_columns=2).axes)
    2
    """
    if not displays:
        raise InputError("displays must not be empty.", "displays")
    n = len(displays)
    n_columns = min(n_columns, n)
    n_rows = -(-n // n_columns)
    first = next(iter(displays.values()))
    if height is None:
        height = max(display.panel_height(width / n_columns) for display in displays.values())
    figure = new_figure(width, height * n_rows + 0.25)
    shares_y = all(first.shares_y(display) for display in displays.values())
    with context():
        used: list[Any] = [figure.add_subplot(n_rows, n_columns, i + 1) for i in range(n)]
        for i, (ax, (name, display)) in enumerate(zip(used, displays.items(), strict=True)):
            display.draw(ax, legend=False)
            ax.set_title(name)
            panels = [ax, *ax.child_axes]
            if i + n_columns < n:  # there is a panel below
                panels[-1].set_xlabel("")
                ax.tick_params(labelbottom=False)
            if i % n_columns:
                for panel in panels:
                    panel.set_ylabel("")
                ax.tick_params(labelleft=not shares_y)
        _share_limits(used, y=shares_y)
        _share_limits([child for ax in used for child in ax.child_axes], y=True)
        _add_legend_below(figure, used)
    return figure


def _share_limits(axes: Sequence["Axes"], *, y: bool) -> None:
    """Give axes the same horizontal limits and, with y, the same vertical ones."""
    for ax in axes:
        ax.set_xlim(min(a.viewLim.xmin for a in axes), max(a.viewLim.xmax for a in axes))
        if y and not ax.yaxis_inverted():  # rows of names run downward
            ax.set_ylim(min(a.viewLim.ymin for a in axes), max(a.viewLim.ymax for a in axes))


def _add_legend_below(figure: "Figure", axes: Sequence["Axes"]) -> None:
    """Put one legend of all axes below a figure."""
    found: dict[str, Any] = {}
    for ax in axes:
        handles, names = ax.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    if found:
        # Letters of the names that fit beside each other at this width.
        n_fit = int(figure.get_figwidth() * 17 / (max(map(len, found)) + 5))
        n_columns = max(1, min(len(found), n_fit))
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=n_columns)


def save(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure as .png, .svg or .pdf, without dates: equal figures are equal files."""
    suffix = Path(path).suffix.lower()
    if suffix not in _METADATA:
        raise InputError(f"path must end in {', '.join(_METADATA)}, got {path}.", "path")
    with context(), atomic_write(path, "wb") as file:
        figure.savefig(file, format=suffix[1:], metadata=_METADATA[suffix])
