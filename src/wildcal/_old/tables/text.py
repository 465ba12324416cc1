"""Tables for `print`: letters of one width, nothing else needed."""

from textwrap import fill

from wildcal._old.tables.model import Table

_WIDEST = 48


def render(table: Table, *, width: int = 100) -> str:
    """Return a table as lines of text; what is best has a star.

    >>> from wildcal._old.tables import Column, Table, number
    >>> print(render(Table("all", (Column("name", False), Column("ECE")), ())))
    all
    name  ECE
    """
    lines = [table.heads]
    for i, row in enumerate(table.rows):
        texts = [str(cell) + " *" * (cell.rank == 1) for cell in row]
        texts[0] += " *" * (i == table.best_row)
        lines.append([t if len(t) <= _WIDEST else f"{t[: _WIDEST - 3]}..." for t in texts])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [">" if column.is_number else "<" for column in table.columns]
    body = [
        "  ".join(f"{t:{side}{w}}" for t, side, w in zip(line, sides, widths, strict=True)).rstrip()
        for line in lines
    ]
    notes = [fill(note, width) for note in table.notes]
    return "\n".join([*([table.title] if table.title else []), *body, *notes])
