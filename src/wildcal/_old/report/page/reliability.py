"""Reliability diagrams for any method and condition: an empty picture, and the numbers for it.

The page's script moves the marks; so one picture serves hundreds of combinations.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from wildcal._old.metrics import TopLabelAccumulator
from wildcal._old.report.page.axes import Picture, Scale
from wildcal._old.report.page.marks import shown
from wildcal._old.report.page.markup import tag, words

_UNIT: Final = 10_000
"""Shares are sent as whole ten-thousandths, which is finer than a pixel."""
_EMPTY: Final = -1


def reliability_data(
    tables: Mapping[str, Sequence[TopLabelAccumulator]], conditions: Sequence[str]
) -> dict[str, Any]:
    """Return the tables of conditions in their order, as the script reads them."""
    return {
        "unit": _UNIT,
        "tables": [[_table(table) for table in tables[name]] for name in conditions],
    }


def _table(seen: TopLabelAccumulator) -> dict[str, Any]:
    table = seen.reliability()
    return {
        "n": seen.n,
        "accuracy": round(seen.accuracy(), 6),
        "confidence": round(seen.mean_confidence(), 6),
        "ece": round(seen.ece(), 6),
        "count": table.count.tolist(),
        "bins": [
            np.where(table.count > 0, np.nan_to_num(column * _UNIT).round(), _EMPTY)
            .astype(int)
            .tolist()
            for column in (table.confidence, table.accuracy, table.low, table.high)
        ],
    }


def diagram(n_bins: int, methods: Sequence[str], chosen: str, name: str) -> str:
    """Return an empty diagram with a menu of methods, which the script fills."""
    picture = Picture(height=340, bottom=42)
    strip = 46.0
    floor = picture.height - picture.bottom - strip
    x, y = picture.x(0, 1), Scale(0, 1, floor - 10, picture.top)
    counts = Scale(0, 1, floor + strip, floor)
    picture.left_axis(Scale(0, 100, y.start, y.end), "accuracy (%)")
    picture.bottom_axis(Scale(0, 100, x.start, x.end), "confidence (%)")
    picture.add(
        tag("line", x1=x(0), y1=y(0), x2=x(1), y2=y(1), class_="diagonal"),
        tag("text", words("rows"), x=picture.left - 6, y=counts.end + 14, class_="end"),
    )
    for _ in range(n_bins):
        parts = (
            tag("title"),
            tag("rect", class_="count"),
            tag("line", class_="gap"),
            tag("line", class_="interval"),
            tag("circle", r=4, class_="dot"),
        )
        picture.add(tag("g", *parts, class_="bin"))
    places = [x.start, x.end, y.start, y.end, counts.start, counts.end]
    options = [
        tag("option", words(shown(method)), value=i, selected="" if method == chosen else None)
        for i, method in enumerate(methods)
    ]
    menu = tag("label", "Method ", tag("select", *options, class_="method"))
    svg = picture.svg("Reliability diagram", data_places=" ".join(f"{p:g}" for p in places))
    said = tag("p", class_="said", role="status")
    return tag("figure", menu, svg, said, class_="reliability", id=name)
