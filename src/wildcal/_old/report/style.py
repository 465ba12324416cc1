"""How all figures look: colors that the color-blind tell apart, sizes that are read in print."""

from collections.abc import Sequence
from typing import Any, Final

from wildcal._old.calibrators import CALIBRATORS
from wildcal._old.report.names import METHOD_TITLES

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

GROUPS: Final = ("#332288", "#DDAA33", "#BB5566")
"""Groups of rows: right, wrong, of no class. Dark, light and middle also without color."""
CURVES: Final = ("#882255", "#4477AA", "#999933", "#555555", "#44BB99", "#CC6677")
"""Curves that are laid over each other on one axis."""

STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "wildcal",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": f"cycler('color', {list(CURVES)})",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
"""Settings of matplotlib: ``plt.style.use(STYLE)``, or ``with plt.rc_context(STYLE):``."""


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
