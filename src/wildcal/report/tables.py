"""Tables as text: Markdown and LaTeX to be read, CSV to be computed with."""

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from wildcal.report.model import Cell, FigureArtefact, Row, TableArtefact

BEST, SECOND = 1, 2
ABSENT: Final = "–"
# With more columns than this, intervals would make a Markdown table too wide to read.
_ROOM: Final = 4
_LATEX: Final = {
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


def percent(value: float) -> str:
    """Return a fraction in percent, with the two decimals that tables show."""
    return f"{100 * value:.2f}"


def ranks(row: Row) -> list[int | None]:
    """Return 1 for the best cells of a row, 2 for the second best, None for the others.

    What looks equal is equal: numbers are compared as they are shown.
    """
    shown = [None if cell is None else float(percent(cell.value)) for cell in row.cells]
    different = sorted({v for v in shown if v is not None}, reverse=row.higher_is_better)
    places = {value: place for place, value in enumerate(different[:2], BEST)}
    return [None if value is None else places.get(value) for value in shown]


def table_markdown(table: TableArtefact) -> str:
    """Return the table in Markdown: best bold, second underlined, intervals if there is room."""
    intervals = len(table.columns) <= _ROOM

    def text(cell: Cell | None, rank: int | None) -> str:
        if cell is None:
            return ABSENT
        number = percent(cell.value)
        number = {BEST: f"**{number}**", SECOND: f"<u>{number}</u>"}.get(rank or 0, number)
        if intervals and cell.low is not None and cell.high is not None:
            number += f" \\[{percent(cell.low)}, {percent(cell.high)}\\]"
        return number

    header = [*table.words, *table.columns]
    rule = ["---"] * len(table.words) + ["--:"] * len(table.columns)
    lines = [_piped(_markdown(word) for word in header), _piped(rule)]
    for row in table.rows:
        cells = map(text, row.cells, ranks(row))
        lines.append(_piped([*map(_markdown, row.labels), *cells]))
        if row.published is not None:
            labels = map(_markdown, _paper_labels(row))
            lines.append(_piped([*labels, *_published(row, table.columns)]))
    legend = ["Bold: best of the row; underlined: second best."]
    if intervals and any(cell and cell.low is not None for row in table.rows for cell in row.cells):
        legend.append(
            "[low, high]: 95 % basic bootstrap interval over images; it allows for the upward bias"
            " of the ECE, so it may lie below the value."
        )
    notes = "\n".join(f"- {_markdown(note)}" for note in (*legend, *table.notes))
    body = "\n".join(lines)
    return f"# {_markdown(table.title)}\n\n{body}\n\n{notes}\n"


def table_latex(table: TableArtefact) -> str:
    """Return the table in LaTeX; it needs no package."""

    def text(cell: Cell | None, rank: int | None) -> str:
        if cell is None:
            return "--"
        number = percent(cell.value)
        styled = {BEST: rf"\textbf{{{number}}}", SECOND: rf"\underline{{{number}}}"}
        return styled.get(rank or 0, number)

    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(table.title)}}}",
        rf"\begin{{tabular}}{{{'l' * len(table.words)}{'r' * len(table.columns)}}}",
        r"\hline",
        _ampersands(_latex(word) for word in (*table.words, *table.columns)),
        r"\hline",
    ]
    for row in table.rows:
        cells = map(text, row.cells, ranks(row))
        lines.append(_ampersands([*map(_latex, row.labels), *cells]))
        if row.published is not None:
            published = map(_latex, _published(row, table.columns))
            lines.append(_ampersands([*map(_latex, _paper_labels(row)), *published]))
    notes = [rf"\par {{\footnotesize {_latex(note)}}}" for note in table.notes]
    lines += [r"\hline", r"\end{tabular}", *notes, r"\end{table}"]
    return "\n".join(lines) + "\n"


def table_csv(table: TableArtefact) -> str:
    """Return a line for each number, in percent and full precision, with all that belongs to it."""
    words = [word.replace(" ", "_") for word in table.words]
    header = ("suite", *words, "method", "value", "low", "high", "noise_floor", "rank", "used")
    paper = any(row.published is not None for row in table.rows)
    more = ("paper_network", "paper", "paper_error") if paper else ()
    lines: list[Sequence[object]] = [(*header, *more)]
    for row in table.rows:
        for column, cell, rank in zip(table.columns, row.cells, ranks(row), strict=True):
            numbers = [None] * 4 if cell is None else _numbers(cell)
            used = "" if cell is None else cell.used
            line = [row.suite, *row.labels, column, *numbers, rank, used]
            if paper and row.published is not None:
                published = row.published
                line += [published.network, published.values.get(column), published.error]
            elif paper:
                line += [None, None, None]
            lines.append(line)
    return _csv(lines)


def figure_csv(figure: FigureArtefact) -> str:
    """Return a line for each point of a figure, in the units of its axes."""
    lines: list[Sequence[object]] = [
        ("panel", "series", "x_label", "x", "y_label", "y", "low", "high")
    ]
    for panel in figure.panels:
        title = " / ".join(panel.title.splitlines())
        for series in panel.series:
            nothing = (None,) * len(series.x)
            points = zip(
                series.x, series.y, series.low or nothing, series.high or nothing, strict=True
            )
            for x, y, low, high in points:
                shown = None if math.isnan(y) else y
                names = (title, series.name, panel.x_label, x, panel.y_label)
                lines.append((*names, shown, low, high))
    return _csv(lines)


def figure_markdown(figure: FigureArtefact, picture: str | None) -> str:
    """Return a page with a figure's notes, and the picture of that file name."""
    shown = f"![{_markdown(figure.title)}]({picture})\n\n" if picture else ""
    notes = "\n".join(f"- {_markdown(note)}" for note in figure.notes)
    return f"# {_markdown(figure.title)}\n\n{shown}{notes}\n"


def _numbers(cell: Cell) -> list[float | None]:
    values = (cell.value, cell.low, cell.high, cell.noise_floor)
    return [None if value is None else 100 * value for value in values]


def _paper_labels(row: Row) -> list[str]:
    assert row.published is not None  # the callers looked
    mark = "†" if row.published.error else ""
    network = f"{row.published.network} (paper){mark}"
    return [row.labels[0], network, *row.labels[2:]]


def _published(row: Row, columns: Sequence[str]) -> list[str]:
    assert row.published is not None
    values = row.published.values
    return [f"{values[column]:.2f}" if column in values else ABSENT for column in columns]


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", text)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ampersands(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _csv(lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
