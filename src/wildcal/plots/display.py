"""Base class of figures."""

import os
from typing import TYPE_CHECKING, Any, ClassVar, Self

from wildcal.evaluation.results import data_frame
from wildcal.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Display:
    """Base of all figures. A subclass holds numbers and draws them in `draw`.

    Attributes
    ----------
    ax_, figure_
        Axis and figure of the last `plot`.
    """

    size: ClassVar[tuple[float, float]] = (style.COLUMN, 2.5)
    """Width and height in inches of a figure with one panel."""
    ax_: "Axes"
    figure_: "Figure"

    def records(self) -> list[dict[str, Any]]:
        """Return the numbers that are drawn, as rows of a tidy table."""
        raise NotImplementedError

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw on an axis."""
        raise NotImplementedError

    def frame(self) -> Any:
        """Return the numbers that are drawn as a pandas DataFrame."""
        return data_frame(self.records())

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on an axis, by default a new one, and keep it as `ax_`."""
        width = self.size[0]
        with style.context():
            if ax is None:  # a figure of pyplot is shown by notebooks
                from matplotlib import pyplot

                size = (width, self.panel_height(width))
                ax = pyplot.figure(figsize=size, layout="constrained").add_subplot()
            self.draw(ax)
        self.ax_ = ax
        self.figure_ = ax.get_figure(root=True)  # type: ignore[assignment]
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure as .png, .svg or .pdf."""
        if not hasattr(self, "figure_"):
            self.plot()
        style.save(self.figure_, path)

    def shares_y(self, other: "Display") -> bool:
        """Return whether the other display may have the same vertical axis."""
        return True

    def panel_height(self, width: float) -> float:
        """Return the height in inches of a panel of some width."""
        return width * self.size[1] / self.size[0]
