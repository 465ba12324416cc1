"""Charts of the report page as inline SVG."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

import numpy as np

from wildcal.metrics import Estimate

N_COLORS: Final = 10
"""Colors in page.css besides the gray of no calibration."""
# Drawn around (0, 0), about eight pixels wide.
_SHAPES: Final = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "M-3.5 -3.5h7v7h-7Z",
    "M0 -4.6L4.4 3.4H-4.4Z",
    "M0 -5L4.2 0L0 5L-4.2 0Z",
    "M0 4.6L4.4 -3.4H-4.4Z",
    "M-1.4 -4.2h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8h-2.8v-2.8h2.8Z",
    "M-4.4 0L3.4 -4.4V4.4Z",
    "M4.4 0L-3.4 -4.4V4.4Z",
    "M0 -4.8L4.6 -1.5L2.8 3.9H-2.8L-4.6 -1.5Z",
)
_ROW: Final = 22
"""Height of a row with a name at its left, in pixels."""


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an element around children that are markup already; attributes are escaped.

    >>> tag("td", "a", class_="left", data_value=1.5, title=None)
    '<td class="left" data-value="1.5">a</td>'
    """
    opened = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else str(value)
            opened.append(f'{key.rstrip("_").replace("_", "-")}="{escape(shown)}"')
    return f"<{' '.join(opened)}>{''.join(children)}</{name}>"


Ticks = Sequence[tuple[float, str]]
"""Values on an axis with their texts."""


Curve = Sequence[tuple[float, float]]
"""Points of a line. NaN breaks it."""


@dataclass(frozen=True)
class Scale:
    """A linear map of numbers from `low` to `high` to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a number."""
        span = self.high - self.low or 1.0
        return round(self.start + (value - self.low) / span * (self.end - self.start), 1)

    def ticks(self) -> Ticks:
        """Return round numbers on the scale with their texts.

        >>> Scale(0, 2, 0, 100).ticks()
        [(0.0, '0'), (0.5, '0.5'), (1.0, '1'), (1.5, '1.5'), (2.0, '2')]
        """
        from matplotlib.ticker import MaxNLocator

        ticks = MaxNLocator(7, steps=[1, 2, 5, 10], min_n_ticks=4).tick_values(self.low, self.high)
        rounding = 1e-9 * (self.high - self.low)
        shown = [t for t in ticks if self.low - rounding <= t <= self.high + rounding]
        return [(float(t), f"{t:g}") for t in shown]


@dataclass(frozen=True)
class Picture:
    """An SVG as wide as a phone, so that its text stays readable there."""

    height: float = 260
    left: float = 46
    right: float = 14
    top: float = 26
    bottom: float = 42
    width: float = 400
    parts: list[str] = field(default_factory=list)

    def x(self, low: float, high: float) -> Scale:
        """Return the horizontal scale."""
        return Scale(low, high, self.left, self.width - self.right)

    def y(self, low: float, high: float) -> Scale:
        """Return the vertical scale."""
        return Scale(low, high, self.height - self.bottom, self.top)

    def add(self, name: str, *children: str, **attributes: object) -> None:
        """Add an element."""
        self.parts.append(tag(name, *children, **attributes))

    def text(self, text: str, x: float, y: float, class_: str | None = None) -> None:
        """Add text."""
        self.add("text", escape(text, quote=False), x=x, y=y, class_=class_)

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        """Add a line."""
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)

    def bottom_axis(self, scale: Scale, label: str, ticks: Ticks | None = None) -> None:
        """Add ticks and the name of the axis; every other long tick is a line lower."""
        floor = self.height - self.bottom
        for i, (value, text) in enumerate(ticks or scale.ticks()):
            at = scale(value)
            self.line(at, floor, at, floor + 4, "tick")
            self.text(text, at, floor + (30 if len(text) > 5 and i % 2 else 17), "middle")
        self.line(scale.start, floor, scale.end, floor, "axis")
        self.text(label, (scale.start + scale.end) / 2, self.height - 6, "middle label")

    def left_axis(self, scale: Scale, label: str = "", ticks: Ticks | None = None) -> None:
        """Add grid lines, their texts, and the name of the axis above."""
        for value, text in ticks or scale.ticks():
            at = scale(value)
            self.line(self.left, at, self.width - self.right, at, "grid")
            self.text(text, self.left - 6, at + 4, "end")
        if label:
            self.text(label, self.left, self.top - 12, "label")

    def svg(self, description: str, **attributes: object) -> str:
        """Return the picture, with a description for screen readers."""
        box = f"0 0 {self.width:g} {self.height:g}"
        return tag(
            "svg", *self.parts, viewBox=box, role="img", aria_label=description, **attributes
        )


class Marks:
    """A color and a shape for each method, in the order in which they are given."""

    def __init__(self, methods: Sequence[str]) -> None:
        self._index = {method: i for i, method in enumerate(methods)}

    def style(self, method: str) -> str:
        """Return the class that gives a method its color."""
        return "plain" if method == "identity" else f"m{self._index[method] % N_COLORS}"

    def mark(self, method: str, x: float, y: float, text: str) -> str:
        """Return the mark of a method, with a tooltip."""
        return tag(
            "path", tag("title", escape(text, quote=False)),
            d=_SHAPES[self._index[method] % len(_SHAPES)],
            transform=f"translate({x:g} {y:g})", class_=f"mark {self.style(method)}",
            data_method=method,
        )  # fmt: skip


def method_label(method: str) -> str:
    """Return the name of a method on the page."""
    return "uncalibrated" if method == "identity" else method


def line_chart(
    curves: Mapping[str, Curve], marks: Marks, x_label: str, y_label: str, *,
    ticks: Ticks | None = None, floor: Sequence[float] | None = None,
) -> str:  # fmt: skip
    """Return lines of methods, the first on top; `floor` is the noise floor."""
    picture = Picture(height=280)
    at = [x for curve in curves.values() for x, _ in curve]
    values = [y for curve in curves.values() for _, y in curve]
    top = 1.05 * np.nanmax([*values, *(floor or ())])
    margin = 0.03 * (max(at) - min(at))
    x, y = picture.x(min(at) - margin, max(at) + margin), picture.y(0, top or 1.0)
    picture.left_axis(y, y_label)
    picture.bottom_axis(x, x_label, ticks)
    if floor is not None:
        picture.add("path", d=_path(enumerate(floor), x, y), class_="floor")
    for method, curve in reversed(list(curves.items())):
        line = _path(curve, x, y)
        picture.add("path", d=line, class_=f"line {marks.style(method)}", data_method=method)
        step = max(1, len(curve) // 5)  # about five marks on a long curve
        for at_x, value in curve[step // 2 :: step]:
            if not math.isnan(value):
                text = f"{method_label(method)}: {value:.3g} at {at_x:.3g}"
                picture.parts.append(marks.mark(method, x(at_x), y(value), text))
    return picture.svg(f"{y_label} of each method against {x_label}")


def dots_chart(
    estimates: Mapping[str, Mapping[str, Estimate]], marks: Marks, label: str, *,
    highest: float | None = None,
) -> str:  # fmt: skip
    """Return a row for each name, with the estimates of all methods in per cent.

    `estimates`: by method and the name of the row; `highest`: end of the axis.
    """
    rows = list(dict.fromkeys(row for column in estimates.values() for row in column))
    found = [e for column in estimates.values() for e in column.values()]
    top = 100 * np.nanmax([(e.value, e.high or 0) for e in found]) if highest is None else highest
    picture = Picture(height=48 + _ROW * len(rows), left=124, top=8, bottom=40)
    x = picture.x(0, 1.03 * top or 1.0)
    y = Scale(-0.5, len(rows) - 0.5, picture.top, picture.height - picture.bottom)
    names = [row.replace("_", " ") for row in rows]
    short = [name if len(name) <= 18 else f"{name[:17]}…" for name in names]
    picture.left_axis(y, ticks=list(enumerate(short)))
    picture.bottom_axis(x, label)
    for method, column in reversed(list(estimates.items())):
        for row, e in column.items():
            if math.isnan(e.value):
                continue
            at, value = y(rows.index(row)), 100 * e.value
            if e.interval is not None and e.interval[0] < e.interval[1]:
                low, high = (x(min(100 * end, top)) for end in e.interval)
                picture.line(low, at, high, at, f"interval {marks.style(method)}")
            text = f"{method_label(method)}, {row}: {value:.2f}"
            picture.parts.append(marks.mark(method, x(value), at, text))
    return picture.svg(f"{label} of each method")


def reliability_chart(n_bins: int) -> str:
    """Return an empty reliability diagram, which the script of the page fills."""
    picture, strip = Picture(height=420), 46.0
    floor = picture.height - picture.bottom - strip
    x, y = picture.x(0, 1), Scale(0, 1, floor - 10, picture.top)
    picture.left_axis(y, "accuracy")
    picture.bottom_axis(x, "confidence")
    picture.line(x(0), y(0), x(1), y(1), "diagonal")
    picture.text("samples", picture.left - 2, floor + 14, "end small")
    for _ in range(n_bins):
        marks = (tag("title"), tag("rect", class_="count"), tag("line", class_="gap"),
                 tag("line", class_="whisker"), tag("circle", r=4, class_="dot"))  # fmt: skip
        picture.add("g", *marks, class_="bin")
    places = [x.start, x.end, y.start, y.end, floor + strip, floor]
    return picture.svg("Reliability diagram", data_places=" ".join(f"{p:g}" for p in places))


def _path(points: Iterable[tuple[float, float]], x: Scale, y: Scale) -> str:
    """Return a line through points, which breaks where a number is missing."""
    path, command = [], "M"
    for at, value in points:
        if math.isnan(value):
            command = "M"
        else:
            path.append(f"{command}{x(at):g} {y(value):g}")
            command = "L"
    return "".join(path)
