"""Errors of methods under shift: by severity, by condition, and as a heat map."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from wildcal.evaluation.results import estimate_columns
from wildcal.metrics import Estimate
from wildcal.plots.display import Display
from wildcal.plots.style import COLUMN, GRAY, PAGE, REFERENCE, method_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SPREAD: Final = 0.34
"""Width over which the markers of methods at one severity are spread."""


@dataclass(eq=False)
class SeverityDisplay(Display):
    """Error of each method against severity, with intervals and the noise floor.

    Markers of methods are drawn side by side, so that equal ones do not hide each other.

    Examples
    --------
    >>> display = SeverityDisplay({"ts": [Estimate(0.02, 0.01, 0.03), Estimate(0.08, 0.07, 0.09)]})
    >>> display.frame().value.tolist()
    [0.02, 0.08]
    """

    methods: Mapping[str, Sequence[Estimate]]
    """Estimates at severity 0, 1, ..., by method."""
    floor: Sequence[float] | None = None
    """Noise floor at each severity."""
    y_label: str = "ECE (%)"
    size: ClassVar[tuple[float, float]] = (COLUMN, 2.7)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each method and severity."""
        floors = dict(enumerate(self.floor or ()))
        return [
            {"method": m, "severity": i, **estimate_columns(e), "noise_floor": floors.get(i)}
            for m, estimates in self.methods.items()
            for i, e in enumerate(estimates)
        ]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw lines with markers and intervals, and the noise floor as an area."""
        styles = method_styles(self.methods)
        n_levels = max(len(estimates) for estimates in self.methods.values())
        if self.floor is not None:
            floor = 100 * np.array(self.floor)
            x = np.arange(len(floor))
            ax.fill_between(x, floor, color=GRAY, alpha=0.22, lw=0, label="noise floor")
        offsets = np.linspace(-_SPREAD / 2, _SPREAD / 2, len(self.methods))
        for offset, (name, estimates) in zip(offsets, self.methods.items(), strict=True):
            style = styles[name]
            x = np.arange(len(estimates)) + (offset if len(self.methods) > 1 else 0)
            y = np.array([100 * e.value for e in estimates])
            drawn = ax.errorbar(
                x, y, _lengths(estimates), ls=style.line, lw=style.width, marker=style.marker,
                ms=3.2, color=style.color, elinewidth=0.8, label=name,
            )  # fmt: skip
            for bars in drawn[2]:
                bars.set_alpha(0.6)
        ax.set(xlabel="Severity", ylabel=self.y_label)
        ax.set_xticks(range(n_levels))
        ax.set_ylim(bottom=0)
        if legend:
            ax.legend(loc="best", handlelength=2.4)


@dataclass(eq=False)
class DotsDisplay(Display):
    """Estimates with intervals in rows: conditions, groups, methods or differences.

    Examples
    --------
    >>> display = DotsDisplay({"ts": {"fog": Estimate(0.1), "snow": Estimate(0.2)}})
    >>> display.frame().row.tolist()
    ['fog', 'snow']
    """

    series: Mapping[str, Mapping[str, Estimate]]
    """Estimates by the name of the series, such as a method, and the name of the row."""
    x_label: str = "ECE (%)"
    zero: bool = False
    """Whether 0 is the value to compare with. Intervals that contain it have hollow markers."""
    scale: float = 100.0
    """Factor between numbers and the axis."""
    show_floor: bool = False
    """Whether the noise floor of the first series is drawn."""
    size: ClassVar[tuple[float, float]] = (COLUMN, 3.0)

    @property
    def rows(self) -> list[str]:
        """The names of the rows, from top to bottom."""
        return _rows(self.series)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each dot."""
        return [
            {"series": name, "row": row, **estimate_columns(e)}
            for name, series in self.series.items()
            for row, e in series.items()
        ]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw the dots."""
        rows, styles, n = self.rows, method_styles(self.series), len(self.series)
        if self.zero:
            ax.axvline(0, **REFERENCE)
        for i in range(0, len(rows), 2):
            ax.axhspan(i - 0.5, i + 0.5, color=GRAY, alpha=0.09, lw=0)
        if self.show_floor:
            first = next(iter(self.series.values()))
            at = [rows.index(row) for row in first]
            floors = [self.scale * (e.floor or 0.0) for e in first.values()]
            ax.barh(at, floors, height=1.0, color=GRAY, alpha=0.3, lw=0, label="noise floor")
        is_one_per_row = sum(map(len, self.series.values())) == len(rows)
        offsets = np.zeros(n) if is_one_per_row else np.linspace(-0.3, 0.3, n)
        for offset, (name, series) in zip(offsets, self.series.items(), strict=True):
            label, color = None if is_one_per_row else name, styles[name].color
            hollow = {row for row, e in series.items() if self.zero and _contains_0(e)}
            for chosen, face in ((series.keys() - hollow, color), (hollow, "white")):
                found = {row: e for row, e in series.items() if row in chosen}
                if found:
                    ax.errorbar(
                        [self.scale * e.value for e in found.values()],
                        [rows.index(row) + offset for row in found],
                        xerr=_lengths(list(found.values()), self.scale), ls="none", label=label,
                        marker=styles[name].marker, ms=3.6 if n < 4 else 3.0,
                        color=color, elinewidth=0.9, mfc=face,
                    )  # fmt: skip
                    label = None
        ax.set_yticks(range(len(rows)), rows)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(self.x_label)
        if not self.zero:
            ax.set_xlim(left=0)
        if legend and not is_one_per_row:
            ax.legend(loc="best", handlelength=2.4)

    def shares_y(self, other: Display) -> bool:
        """Return whether the other display has the same rows."""
        return isinstance(other, DotsDisplay) and self.rows == other.rows

    def panel_height(self, width: float) -> float:
        """Return a height at which the names of the rows have room."""
        n = sum(map(len, self.series.values())) / len(self.rows)
        return 0.5 + len(self.rows) * (0.15 + 0.018 * n)


@dataclass(eq=False)
class HeatmapDisplay(Display):
    """A table of differences as colors: blue below 0, red above, in brackets if not significant.

    Examples
    --------
    >>> display = HeatmapDisplay({"ResNet": {"fog": Estimate(-0.02, -0.03, -0.01)}})
    >>> display.frame().column.tolist()
    ['ResNet']
    """

    columns: Mapping[str, Mapping[str, Estimate]]
    """Estimates by the name of the column and of the row."""
    label: str = "Difference (points)"
    size: ClassVar[tuple[float, float]] = (PAGE, 4.6)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each cell."""
        return [
            {"column": name, "row": row, "value": e.value, "low": e.low, "high": e.high}
            for name, column in self.columns.items()
            for row, e in column.items()
        ]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw cells with their numbers; those whose interval contains 0 are gray."""
        rows = _rows(self.columns)
        missing = Estimate(math.nan)
        values = 100 * np.array(
            [[c.get(row, missing).value for c in self.columns.values()] for row in rows]
        )
        limit = float(np.nanmax(np.abs(values)))
        image = ax.imshow(
            values, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        for j, column in enumerate(self.columns.values()):
            for row, e in column.items():
                text, color = f"{100 * e.value:+.1f}", "black"
                if _contains_0(e):
                    text, color = f"({text})", GRAY
                if abs(100 * e.value) > 0.6 * limit:
                    color = "white"
                i = rows.index(row)
                ax.text(j, i, text, ha="center", va="center", color=color, fontsize=6.5)
        ax.set_yticks(range(len(rows)), rows)
        ax.set_xticks(range(len(self.columns)), list(self.columns), rotation=30,
                      ha="right", rotation_mode="anchor")  # fmt: skip
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.03, pad=0.01)
        bar.set_label(self.label)
        bar.outline.set_visible(False)


def _rows(series: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    """Return the names of all rows, in the order of their first use."""
    return list(dict.fromkeys(row for each in series.values() for row in each))


def _contains_0(e: Estimate) -> bool:
    """Return whether there is an interval and it contains 0."""
    return e.interval is not None and e.interval[0] <= 0 <= e.interval[1]


def _lengths(estimates: Sequence[Estimate], scale: float = 100.0) -> Any:
    """Return the lengths of the intervals below and above the values; None without intervals."""
    if all(e.interval is None for e in estimates):
        return None
    values = np.array([(e.low, e.value, e.high) for e in estimates], dtype=np.float64)
    return np.maximum(0.0, scale * np.diff(values, axis=1).T)
