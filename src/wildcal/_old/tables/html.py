"""Tables in HTML: for notebooks with inline styles, for pages with class names and sort buttons."""

from collections.abc import Sequence
from html import escape
from typing import Final

from wildcal._old.tables.model import Cell, Table

# Colors are inherited, so that a dark notebook stays dark. No script and no class names: the table
# looks the same in an exported page.
_TABLE: Final = "border-collapse:collapse;color:inherit;background:none"
_CAPTION: Final = "caption-side:top;text-align:left;color:inherit;font-weight:bold"
_CELL: Final = "padding:0.2em 0.7em;color:inherit;background:none;text-align:"
_NUMBER: Final = "right;white-space:nowrap"


def render(table: Table) -> str:
    """Return a table for a notebook; every text is escaped here, so callers hand over plain text.

    >>> from wildcal._old.tables import Cell, Column, Table
    >>> html = render(Table("a & b", (Column("name", False),), ((Cell("<script>"),),)))
    >>> "<script>" in html, "&lt;script&gt;" in html, "a &amp; b" in html
    (False, True, True)
    """
    sides = [_NUMBER if column.is_number else "left" for column in table.columns]

    def line(tag: str, cells: Sequence[str], styles: Sequence[str]) -> str:
        shown = "".join(
            f'<{tag} style="{_CELL}{side}{style}">{escape(cell)}</{tag}>'
            for cell, side, style in zip(cells, sides, styles, strict=True)
        )
        return f"<tr>{shown}</tr>"

    head = line("th", table.heads, [";border-bottom:1px solid currentColor"] * len(sides))
    bold = ";font-weight:bold"
    body = [
        line(
            "td",
            [str(cell) for cell in row],
            [bold * (i == table.best_row or cell.rank == 1) for cell in row],
        )
        for i, row in enumerate(table.rows)
    ]
    return (
        f'<table style="{_TABLE}"><caption style="{_CAPTION}">{escape(table.title)}</caption>'
        f"<thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{notes(table.notes)}"
    )


def notes(texts: Sequence[str]) -> str:
    """Return sentences as small paragraphs, escaped."""
    return "".join(f"<p><small>{escape(text)}</small></p>" for text in texts)


def render_sortable(table: Table, keys: Sequence[str] = ()) -> str:
    """Return a table for a page whose script sorts by the heads and marks the row of a key.

    Every cell carries its number in full precision as `data-value`; `keys` become `data-method`.
    """
    heads = [
        f'<th scope="col"{"" if column.is_number else _LEFT}>'
        f'<button type="button">{_text(column.head)}</button></th>'
        for column in table.columns
    ]
    rows = []
    for i, row in enumerate(table.rows):
        cells = [
            _cell(cell, left=not column.is_number)
            for cell, column in zip(row, table.columns, strict=True)
        ]
        best = ' class="best"' if i == table.best_row else ""
        key = f' data-method="{escape(keys[i])}"' if keys else ""
        rows.append(f"<tr{best}{key}>{''.join(cells)}</tr>")
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="table"><table class="sortable">'
        f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


_LEFT: Final = ' class="left"'


def _cell(cell: Cell, *, left: bool) -> str:
    value = cell.text if left else "" if cell.value is None else repr(cell.value)
    more = f' <span class="interval-text">{_text(cell.more)}</span>' if cell.more else ""
    return f'<td{_LEFT if left else ""} data-value="{escape(value)}">{_text(cell.text)}{more}</td>'


def _text(text: str) -> str:
    return escape(text, quote=False)
