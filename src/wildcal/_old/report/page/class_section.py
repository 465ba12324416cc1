"""The section about single classes: where the network says one, how sure and how right it is."""

from typing import Final

import numpy as np

from wildcal._old.evaluation.protocol.observe import CLEAN, ByClass
from wildcal._old.metrics.reliability import wilson_interval
from wildcal._old.report.names import plain
from wildcal._old.report.page.content import Content, note, section
from wildcal._old.report.page.marks import shown
from wildcal._old.report.page.markup import tag, words

_MOST: Final = 30
"""Classes of one table; of more, those with the largest gaps are shown."""
_LEAST_ROWS: Final = 5


def class_section(content: Content) -> str:
    """Return a table of the predicted classes for each condition, the largest gaps first."""
    found = content.seen.classes
    names = sorted(found, key=lambda name: name != CLEAN)
    tables = [_table(content, found[name]) for name in names]
    if not any(tables):
        return ""
    options = [tag("option", words(name)) for name in names]
    best = shown(_chosen(content)[-1][0])
    text = (
        "Each line has the rows that were given one class: how many of them are right, with 95 %"
        " Wilson intervals, and how sure the network itself and a method are on average. A gap is"
        f" confidence minus share of right answers, in points. The largest gaps of {best} come"
        f" first; classes with fewer than {_LEAST_ROWS} rows are left out"
    )
    if content.suite.n_classes > _MOST:
        text += f", and so are those after the first {_MOST}"
    return section(
        "Class by class",
        tag("p", tag("label", "Condition ", tag("select", *options, data_shows="by-class"))),
        tag("div", *(tag("div", table) for table in tables), id="by-class"),
        note(f"{text}."),
    )


def _chosen(content: Content) -> list[tuple[str, int]]:
    """Return the network itself, if it was measured, and the best method, with their places."""
    both = list(zip((method.name for method in content.order), content.places, strict=True))
    itself = [pair for pair in both if pair[0] == "identity"]
    return itself + [pair for pair in both if pair[0] != "identity"][:1]


def _table(content: Content, sums: ByClass) -> str:
    shown_ones = _chosen(content)
    methods, places = [name for name, _ in shown_ones], [place for _, place in shown_ones]
    kept = np.flatnonzero(sums.rows >= _LEAST_ROWS)
    right = sums.right[kept] / sums.rows[kept]
    low, high = wilson_interval(sums.right[kept], sums.rows[kept], 0.95)
    sure = sums.confidence[:, kept] / sums.rows[kept]
    order = np.argsort(-np.abs(sure[places[-1]] - right), kind="stable")[:_MOST]
    heads = ["predicted class", "rows", "right (%)"]
    heads += [f"{what} {shown(m)}" for m in methods for what in ("confidence (%),", "gap,")]
    rows = []
    for i in order:
        k = int(kept[i])
        cells = [
            tag("td", words(plain(content.suite.class_names[k])), class_="left"),
            tag("td", f"{int(sums.rows[k]):,}"),
            tag("td", f"{100 * right[i]:.1f}", _interval(low[i], high[i])),
        ]
        for place in places:
            gap = 100 * (sure[place, i] - right[i])
            cells += [tag("td", f"{100 * sure[place, i]:.1f}"), tag("td", f"{gap:+.1f}")]
        rows.append(tag("tr", *cells))
    if not rows:
        return ""
    head = tag(
        "tr",
        *(tag("th", words(h), scope="col", class_=None if i else "left")
          for i, h in enumerate(heads)),
    )  # fmt: skip
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return tag("div", table, class_="wide", tabindex=0, role="region", aria_label="classes")


def _interval(low: float, high: float) -> str:
    return tag("span", f"{100 * low:.1f} to {100 * high:.1f}", class_="interval-text")
