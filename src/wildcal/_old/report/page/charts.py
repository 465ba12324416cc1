"""The page's charts, each a function from numbers to an inline SVG."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from wildcal._old.core.arrays import FloatArray
from wildcal._old.evaluation.protocol.observe import Temperatures
from wildcal._old.report.model import Panel
from wildcal._old.report.page.axes import Picture, Scale, padded
from wildcal._old.report.page.marks import Marks, shown
from wildcal._old.report.page.markup import tag, words
from wildcal._old.report.score_figures import ACCURACY, QUANTILES

Curves = dict[str, list[float]]
"""Numbers of each method; NaN where one could not be measured."""
_ROW: Final = 22
"""Height of a row of a chart with names at its left."""


def severity_chart(curves: Curves, floor: Sequence[float], marks: Marks) -> str:
    """Return ECE in percent against severity 0 to 5, and the noise floor as a dashed line."""
    picture = Picture(height=280)
    highest = max((v for line in (*curves.values(), floor) for v in line if v == v), default=1.0)
    x, y = picture.x(-0.15, 5.15), picture.y(0, 1.05 * highest or 1.0)
    picture.left_axis(y, "ECE (%)")
    picture.bottom_axis(x, "severity", [(level, str(level)) for level in range(6)])
    picture.add(_line(enumerate(floor), x, y, "floor", None))
    # The best method is drawn last, on top.
    for method, levels in reversed(curves.items()):
        picture.add(_line(enumerate(levels), x, y, f"line {marks.style(method)}", method))
        for level, value in enumerate(levels):
            if value == value:
                said = f"{shown(method)}, severity {level}: {value:.2f} %"
                picture.add(marks.mark(method, x(level), y(value), said))
    return picture.svg("ECE of each method by severity")


def type_chart(kinds: Sequence[str], values: Curves, highest: float, marks: Marks) -> str:
    """Return the ECE of each method on each corruption, a row for each; one scale for all."""
    picture = Picture(height=48 + _ROW * len(kinds), left=118, top=8, bottom=40)
    x = picture.x(0, 1.03 * highest or 1.0)
    y = Scale(-0.5, len(kinds) - 0.5, picture.top, picture.height - picture.bottom)
    for row, kind in enumerate(kinds):
        at = y(row)
        picture.add(
            tag("line", x1=picture.left, x2=picture.width - picture.right, y1=at, y2=at,
                class_="grid"),
            tag("text", words(kind.replace("_", " ")), x=picture.left - 6, y=at + 4, class_="end"),
        )  # fmt: skip
    picture.bottom_axis(x, "ECE (%)")
    for method, numbers in reversed(values.items()):
        for row, value in enumerate(numbers):
            if value == value:
                said = f"{shown(method)}, {kinds[row].replace('_', ' ')}: {value:.2f} %"
                picture.add(marks.mark(method, x(value), y(row), said))
    return picture.svg("ECE of each method by corruption")


def histogram_chart(panel: Panel) -> str:
    """Return the densities of a score for two groups, one over the other."""
    picture = Picture(height=220, left=14)
    edges = [float(edge) for edge in panel.series[0].x]
    x = picture.x(edges[0], edges[-1])
    y = picture.y(0, 1.05 * max(max(series.y) for series in panel.series))
    for series, style in zip(panel.series, ("first", "second"), strict=False):
        # Steps: along each bin at its height, then to the next.
        steps = [f"M{x(edges[0]):g} {y(0):g}"]
        for left, right, height in zip(edges, edges[1:], series.y, strict=False):
            steps.append(f"L{x(left):g} {y(height):g}H{x(right):g}")
        steps.append(f"V{y(0):g}Z")
        picture.add(tag("path", tag("title", words(series.name)), d="".join(steps),
                        class_=f"area {style}"))  # fmt: skip
    picture.bottom_axis(x, panel.x_label)
    at = picture.left
    for series, style in zip(panel.series, ("first", "second"), strict=False):
        picture.add(
            tag("rect", x=at, y=4, width=11, height=11, class_=f"area {style}"),
            tag("text", words(series.name), x=at + 16, y=14),
        )
        at += 16 + 7 * len(series.name) + 22
    names = " and ".join(series.name for series in panel.series)
    return picture.svg(f"Density of {panel.x_label}: {names}")


def box_chart(panel: Panel) -> str:
    """Return boxes of the negative energy by group, and the accuracy on an axis of its own."""
    picture = Picture(height=290, right=40, bottom=54)
    by_name = {series.name: series for series in panel.series}
    lines = [by_name[name].y for name in QUANTILES]
    groups = [str(x) for x in by_name[ACCURACY].x]
    x = picture.x(-0.6, len(groups) - 0.4)
    y = picture.y(*padded([value for line in lines for value in line]))
    share = picture.y(0, 100)
    picture.left_axis(y, panel.y_label)
    picture.right_axis(share, "accuracy (%)")
    picture.bottom_axis(x, "severity, or set of other classes", list(enumerate(groups)))
    for i, (low, q1, median, q3, high) in enumerate(zip(*lines, strict=True)):
        left, wide = x(i - 0.28), x(i + 0.28) - x(i - 0.28)
        said = f"{groups[i]}: median {median:.2f}, quartiles {q1:.2f} to {q3:.2f}"
        picture.add(
            tag("line", x1=x(i), x2=x(i), y1=y(low), y2=y(high), class_="axis"),
            tag("rect", tag("title", words(said)), x=left, y=y(q3), width=round(wide, 1),
                height=max(1.0, y(q1) - y(q3)), class_="box"),
            tag("line", x1=left, x2=left + wide, y1=y(median), y2=y(median), class_="median"),
        )  # fmt: skip
    right = [(i, value) for i, value in enumerate(by_name[ACCURACY].y) if value == value]
    picture.add(_line(right, x, share, "line second", None))
    for i, value in right:
        picture.add(
            tag("circle", tag("title", words(f"accuracy {value:.1f} %")), cx=x(i), cy=share(value),
                r=4, class_="dot second")
        )  # fmt: skip
    return picture.svg("Negative energy and accuracy by severity")


def temperature_chart(
    curves: dict[str, Temperatures], marks: Marks, clean: FloatArray | None
) -> str:
    """Return temperature against negative energy: medians, and bands from 5 % to 95 %.

    `clean` are the energies of clean rows, whose middle nine tenths are shaded.
    """
    picture = Picture(height=280)
    first = next(iter(curves.values()))
    x = picture.x(*padded(first.energy.tolist(), 0.02))
    ends = [v for c in curves.values() for line in (c.low, c.high) for v in line.tolist()]
    y = picture.y(*padded([0.0, *ends] if min(ends) < 0.5 else ends, 0.08))
    if clean is not None:
        low, high = (min(max(float(q), x.low), x.high) for q in np.quantile(clean, (0.05, 0.95)))
        shade = tag(
            "rect",
            tag("title", words("nine tenths of the clean rows")),
            x=x(low),
            y=picture.top,
            width=round(x(high) - x(low), 1),
            height=picture.height - picture.bottom - picture.top,
            class_="shade",
        )
        picture.add(shade)
    picture.left_axis(y, "temperature")
    picture.bottom_axis(x, "negative energy")
    for method, curve in reversed(curves.items()):
        style = marks.style(method)
        there = [f"{x(e):g} {y(t):g}" for e, t in zip(curve.energy, curve.low, strict=True)]
        back = [f"{x(e):g} {y(t):g}" for e, t in zip(curve.energy, curve.high, strict=True)]
        picture.add(
            tag("path", d=f"M{'L'.join(there + back[::-1])}Z", class_=f"band {style}",
                data_method=method),
            _line(zip(curve.energy, curve.median, strict=True), x, y, f"line {style}", method),
        )  # fmt: skip
        for i in range(4, len(curve.energy), 8):
            said = f"{shown(method)}: {curve.median[i]:.2f} at {curve.energy[i]:.1f}"
            place = x(curve.energy[i]), y(curve.median[i])
            picture.add(marks.mark(method, *place, said))
    return picture.svg("Temperature of each method against negative energy")


def bar_chart(values: dict[str, float], label: str, marks: Marks) -> str:
    """Return a bar for each method, with its number; in percent from 0 to 100."""
    picture = Picture(height=48 + _ROW * len(values), left=118, top=8, bottom=40, right=44)
    x = picture.x(0, 100)
    picture.bottom_axis(x, label)
    for row, (method, value) in enumerate(values.items()):
        top = picture.top + _ROW * row
        width = round(x(value) - picture.left, 1)
        picture.add(
            tag("text", words(shown(method)), x=picture.left - 6, y=top + 15, class_="end"),
            tag("rect", x=picture.left, y=top + 4, width=width, height=_ROW - 8,
                class_=f"bar {marks.style(method)}", data_method=method),
            tag("text", words(f"{value:.1f}"), x=picture.left + width + 5, y=top + 15),
        )  # fmt: skip
    return picture.svg(f"{label} of each method")


def _line(
    points: Iterable[tuple[float, float]], x: Scale, y: Scale, style: str, method: str | None
) -> str:
    """Return a line through points, which breaks where a number is missing."""
    path, pen = [], "M"
    for at, value in points:
        if value != value:
            pen = "M"
            continue
        path.append(f"{pen}{x(at):g} {y(value):g}")
        pen = "L"
    return tag("path", d="".join(path), class_=style, data_method=method)
