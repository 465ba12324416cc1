"""The axis to draw on. matplotlib is slow to import, and an extra, so it comes in here."""

from typing import TYPE_CHECKING

from wildcal._old.report.model import Panel
from wildcal._old.report.style import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axis(ax: "Axes | None") -> "Axes":
    """Return the axis that was given, or a new one in the style of all figures."""
    if ax is not None:
        return ax
    from matplotlib import pyplot, rc_context

    import wildcal._old.report.plots  # noqa: F401  # says what to install where matplotlib is missing

    with rc_context(STYLE):
        return pyplot.figure(figsize=(4.8, 3.4)).add_subplot()


def draw(kind: str, ax: "Axes | None", panel: Panel) -> "Axes":
    """Draw a panel in one of the ways that reports draw, and return its axis."""
    from wildcal._old.report.plots import KINDS

    mine = axis(ax)
    KINDS[kind](mine, panel)
    return mine
