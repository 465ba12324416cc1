"""Tables for a terminal, as wide as it is."""

import sys
from collections.abc import Sequence
from typing import Literal

from wildcal._old.tables.model import BEST, Table


def printable(text: str) -> str:
    """Return text that moves no cursor and sets no color; names come from files of others.

    >>> printable("a" + chr(27) + "[2Jb")
    'a?[2Jb'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def show(table: Table) -> None:
    """Write a table to stdout; where there is no room, spare columns are left out."""
    from rich.markup import escape

    rows = []
    for i, row in enumerate(table.rows):
        texts = [escape(str(cell)) for cell in row]
        bold = [i == table.best_row or cell.rank == BEST for cell in row]
        rows.append([f"[bold]{t}[/]" if b else t for t, b in zip(texts, bold, strict=True)])
    spare = sorted((c.spare, c.head) for c in table.columns if c.spare is not None)
    show_markup(
        table.heads,
        rows,
        title=escape(table.title),
        caption=escape("\n".join(table.notes)),
        left=[not column.is_number for column in table.columns],
        spare=[head for _, head in spare],
    )


def show_markup(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    caption: str | None = None,
    left: Sequence[bool],
    spare: Sequence[str] = (),
) -> None:
    """Write cells that may use rich markup; columns in `spare` are left out first."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable
    from rich.text import Text

    heads, rows = [*map(printable, heads)], [[*map(printable, row)] for row in rows]
    title, caption = printable(title or ""), printable(caption or "")
    console = Console(file=sys.stdout)
    if not console.is_terminal:  # a pipe or a file has no edge to wrap at
        console = Console(file=sys.stdout, width=300)
    shown = list(range(len(heads)))
    widths = [
        max(len(heads[i]), *(Text.from_markup(row[i]).cell_len for row in rows), 0) + 3
        for i in shown
    ]
    left_out = []
    for name in (name for name in spare if name in heads):
        if sum(widths[i] for i in shown) <= console.width:
            break
        shown.remove(heads.index(name))
        left_out.append(name)
    if left_out:
        caption = f"{caption}\nLeft out to fit the screen: {', '.join(left_out)}.".strip()
    table = RichTable(
        title=title or None,
        caption=caption or None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    for i in shown:
        justify: Literal["left", "right"] = "left" if left[i] else "right"
        table.add_column(escape(heads[i]), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(row[i] for i in shown))
    console.print(table)
