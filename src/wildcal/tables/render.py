"""Tables as plain text, on a terminal, and in Markdown, LaTeX, HTML and csv."""

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from textwrap import fill
from typing import Any, Final

from wildcal.tables.table import ABSENT, Cell, Table

_WIDTH: Final = 100
_LATEX: Final[dict[str, Any]] = {character: "\\" + character for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "†": r"\textdagger{}",
}
_TABLE_STYLE: Final = "border-collapse:collapse;color:inherit;background:none"
_CELL_STYLE: Final = "padding:0.2em 0.7em;color:inherit;background:none;text-align:"


def to_text(table: Table) -> str:
    """Return a table as lines of text; the best of a column has a star.

    Examples
    --------
    >>> from wildcal.tables import Column, number
    >>> rows = ((Cell("ts"), number(0.02)), (Cell("identity"), number(0.1)))
    >>> print(to_text(Table("Test", (Column("method", False), Column("ECE")), rows)))
    Test
    method      ECE
    ts         2.00
    identity  10.00
    """
    lines = [table.heads]
    lines += [[f"{cell}{' *' * cell.is_best}" for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [">" if column.is_number else "<" for column in table.columns]
    body = [
        "  ".join(f"{t:{s}{w}}" for t, s, w in zip(line, sides, widths, strict=True)).rstrip()
        for line in lines
    ]
    notes = [fill(note, _WIDTH) for note in table.notes]
    return "\n".join([*([table.title] if table.title else []), *body, *notes])


def print_table(table: Table) -> None:
    """Print a table to stdout. A narrow terminal leaves out columns, see `Column.priority`."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=sys.stdout)
    if not console.is_terminal:  # a pipe or a file has no width
        console = Console(file=sys.stdout, width=300)
    widths = {
        column.head: 3 + max(len(str(cell)) for cell in (column.head, *cells))
        for column, *cells in zip(table.columns, *table.rows, strict=True)
    }
    optional = sorted((c.priority, c.head) for c in table.columns if c.priority)
    left_out: list[str] = []
    while optional and sum(widths.values()) > console.width:
        left_out.append(optional.pop()[1])
        del widths[left_out[-1]]
    notes = list(table.notes)
    if left_out:
        table = table.select(list(widths))
        notes.append(f"Columns left out to fit the screen: {', '.join(left_out)}.")
    shown = RichTable(box=box.SIMPLE_HEAD)
    for column in table.columns:
        justify: Any = "right" if column.is_number else "left"
        shown.add_column(Text(printable(column.head)), justify=justify, overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(printable(str(c)), "bold" if c.is_best else "") for c in row))
    if table.title:
        console.print(Text(printable(table.title), "bold"))
    console.print(shown)
    for note in notes:
        console.print(Text(printable(note)))


def to_markdown(table: Table) -> str:
    r"""Return a table in Markdown with its title and notes; the best is bold.

    Examples
    --------
    >>> from wildcal.tables import Column, number, with_best
    >>> cells = with_best([number(0.1), number(0.2)], "lower")
    >>> print(to_markdown(Table("", (Column("a_b"), Column("c")), (tuple(cells),))))
    | a\_b | c |
    |--:|--:|
    | **10.00** | 20.00 |
    """
    rule = "".join("--:|" if column.is_number else "---|" for column in table.columns)
    lines = [f"**{_markdown(table.title)}**", ""] if table.title else []
    lines += [f"| {' | '.join(map(_markdown, table.heads))} |", f"|{rule}"]
    for row in table.rows:
        cells = [_marked(cell, "**{}**", _markdown) for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    for note in table.notes:
        lines += ["", _markdown(note)]
    return "\n".join(lines)


def to_latex(table: Table, *, label: str | None = None, cell_notes: bool = False) -> str:
    r"""Return a LaTeX table for the booktabs package; the best is bold.

    Parameters
    ----------
    table
        Its title is the caption.
    label
        Name for ``\ref``.
    cell_notes
        Whether cells are shown with their notes, such as intervals.
    """
    rows = [[_latex(head) for head in table.heads]]
    for row in table.rows:
        cells = row if cell_notes else [replace(cell, note="") for cell in row]
        rows.append([_marked(cell, r"\textbf{{{}}}", _latex) for cell in cells])
    head, *body = [rf"{' & '.join(row)} \\" for row in rows]
    lines = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{_latex(table.title)}}}"] if table.title else []),
        *([rf"\label{{{label}}}"] if label else []),
        rf"\begin{{tabular}}{{{''.join('r' if c.is_number else 'l' for c in table.columns)}}}",
        *(r"\toprule", head, r"\midrule", *body, r"\bottomrule"),
        r"\end{tabular}",
        *(rf"\par {{\footnotesize {_latex(note)}}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def to_html(table: Table) -> str:
    """Return a table for a notebook, all text escaped, colors inherited."""
    sides = ["right;white-space:nowrap" if c.is_number else "left" for c in table.columns]

    def line(tag: str, cells: Iterable[Cell], style: str = "") -> str:
        found = []
        for cell, side in zip(cells, sides, strict=True):
            bold = ";font-weight:bold" if cell.is_best else ""
            text = escape(str(cell))
            found.append(f'<{tag} style="{_CELL_STYLE}{side}{bold}{style}">{text}</{tag}>')
        return f"<tr>{''.join(found)}</tr>"

    caption = f'<caption style="text-align:left;caption-side:top">{escape(table.title)}</caption>'
    head = line("th", map(Cell, table.heads), ";border-bottom:1px solid currentColor")
    body = "".join(line("td", row) for row in table.rows)
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in table.notes)
    parts = f"{caption}<thead>{head}</thead><tbody>{body}</tbody>"
    return f'<table style="{_TABLE_STYLE}">{parts}</table>{notes}'


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    r"""Return records with the same keys as csv, numbers in full precision.

    Examples
    --------
    >>> to_csv([{"a": 1.5, "b": None}])
    'a,b\n1.5,\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if records:
        writer.writerow(records[0])
        writer.writerows(record.values() for record in records)
    return text.getvalue()


def _marked(cell: Cell, best: str, escaped: Callable[[str], str]) -> str:
    text = best.format(escaped(cell.text)) if cell.is_best else escaped(cell.text)
    return f"{text} {escaped(cell.note)}" if cell.note else text


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", text)


def _latex(text: str) -> str:
    if text == ABSENT:
        return "--"
    return text.translate(str.maketrans(_LATEX)).replace("--", "-{}-")


def printable(text: str) -> str:
    """Return text without control characters, which names from files may have."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
