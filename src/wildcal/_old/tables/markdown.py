"""Tables in Markdown: best bold, second underlined."""

import re
from collections.abc import Callable, Iterable

from wildcal._old.tables.model import BEST, SECOND, Cell, Table


def render(table: Table, *, marked: bool = False) -> str:
    r"""Return the lines of a table, without title and notes.

    With `marked`, the texts are Markdown already.

    >>> from wildcal._old.tables import Column, Table, number, ranked
    >>> cells = ranked([number(0.1), number(0.2)], "lower")
    >>> print(render(Table("", (Column("a_b"), Column("c")), (tuple(cells),))))
    | a\_b | c |
    |--:|--:|
    | **10.00** | 20.00 |
    """
    rule = "".join("--:|" if column.is_number else "---|" for column in table.columns)
    escape = str if marked else plain
    lines = [_piped(escape(head) for head in table.heads), f"|{rule}"]
    lines += [_piped(_cell(cell, escape) for cell in row) for row in table.rows]
    return "\n".join(lines)


def document(table: Table) -> str:
    """Return a table with its title and its notes."""
    notes = "\n".join(f"- {plain(note)}" for note in table.notes)
    return f"# {plain(table.title)}\n\n{render(table)}\n\n{notes}\n"


def plain(text: str) -> str:
    """Return text in which nothing is taken for a mark of Markdown."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", text)


def _cell(cell: Cell, escape: Callable[[str], str]) -> str:
    text = escape(cell.text)
    text = {BEST: f"**{text}**", SECOND: f"<u>{text}</u>"}.get(cell.rank or 0, text)
    return f"{text} {escape(cell.more)}" if cell.more else text


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
