"""Tables of text and numbers, and their renderers."""

from wildcal.tables.render import print_table, to_csv, to_html, to_latex, to_markdown, to_text
from wildcal.tables.table import ABSENT, Cell, Column, Table, number, with_best

__all__ = [
    "ABSENT",
    "Cell",
    "Column",
    "Table",
    "number",
    "print_table",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_text",
    "with_best",
]
