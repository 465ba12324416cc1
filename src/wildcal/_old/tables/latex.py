"""Tables in LaTeX that need no package: best bold, second underlined, no intervals."""

from collections.abc import Iterable
from typing import Final

from wildcal._old.tables.model import ABSENT, BEST, SECOND, Cell, Table

_ESCAPED: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "†": r"$^\dagger$",
    "±": r"$\pm$",
    "–": "--",
} | {character: "\\" + character for character in "&%$#_{}"}


def render(table: Table) -> str:
    """Return a table with its title and notes."""
    sides = "".join("r" if column.is_number else "l" for column in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{plain(table.title)}}}",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\hline",
        _ampersands(plain(head) for head in table.heads),
        r"\hline",
        *(_ampersands(_cell(cell) for cell in row) for row in table.rows),
        r"\hline",
        r"\end{tabular}",
        *(rf"\par {{\footnotesize {plain(note)}}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Return text in which nothing is taken for a command."""
    return "".join(_ESCAPED.get(character, character) for character in text)


def _cell(cell: Cell) -> str:
    text = "--" if cell.text == ABSENT else plain(cell.text)
    styled = {BEST: rf"\textbf{{{text}}}", SECOND: rf"\underline{{{text}}}"}
    return styled.get(cell.rank or 0, text)


def _ampersands(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"
