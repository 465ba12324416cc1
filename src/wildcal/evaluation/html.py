"""Results as HTML tables, the way notebooks show them."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final

# Colours are inherited, so that a dark notebook stays dark. No script and no class names: the table
# looks the same in an exported page.
_TABLE: Final = "border-collapse:collapse;color:inherit;background:none"
_CAPTION: Final = "caption-side:top;text-align:left;color:inherit;font-weight:bold"
_CELL: Final = "padding:0.2em 0.7em;color:inherit;background:none;text-align:"
_NUMBER: Final = "right;white-space:nowrap"


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str,
    notes: Sequence[str] = (),
    words: int = 1,
    bold: int | None = None,
) -> str:
    """Return a table in HTML; every text is escaped here, so callers hand over plain text.

    Parameters
    ----------
    notes
        Sentences below the table.
    words
        How many of the first columns are text; the others are numbers, at the right.
    bold
        The row to put in bold.

    Examples
    --------
    >>> html = html_table(["name"], [["<script>"]], title="a & b")
    >>> "<script>" in html, "&lt;script&gt;" in html, "a &amp; b" in html
    (False, True, True)
    """
    sides = ["left"] * words + [_NUMBER] * (len(header) - words)

    def line(tag: str, cells: Sequence[str], style: str = "") -> str:
        shown = "".join(
            f'<{tag} style="{_CELL}{side}{style}">{escape(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr>{shown}</tr>"

    head = line("th", header, ";border-bottom:1px solid currentColor")
    body = [line("td", row, ";font-weight:bold" * (i == bold)) for i, row in enumerate(rows)]
    return (
        f'<table style="{_TABLE}"><caption style="{_CAPTION}">{escape(title)}</caption>'
        f"<thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{html_notes(notes)}"
    )


def html_notes(notes: Sequence[str]) -> str:
    """Return sentences as small paragraphs, escaped."""
    return "".join(f"<p><small>{escape(note)}</small></p>" for note in notes)


def number(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    percent: bool = True,
) -> str:
    """Return a number as tables show it, with its interval; "-" where there is none.

    >>> number(0.0865, 0.0793, 0.0881), number(0.5, percent=False), number(float("nan"))
    ('8.65 (7.93 to 8.81)', '0.5000', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    scale, digits = (100, 2) if percent else (1, 4)
    text = f"{scale * value:.{digits}f}"
    if low is None or high is None:
        return text
    return f"{text} ({scale * low:.{digits}f} to {scale * high:.{digits}f})"
