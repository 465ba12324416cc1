"""The paper's tables as the one model of tables, and as numbers to compute with."""

import math
from collections.abc import Sequence
from typing import Final

from wildcal._old.metrics.interval import HOLDS_ITS_VALUE
from wildcal._old.report.model import FigureArtifact, Row, TableArtifact
from wildcal._old.tables import SECOND, Cell, Column, Table, csv, latex, markdown, number, ranked
from wildcal._old.tables.model import small_digits

# With more columns than this, intervals would make a table too wide to read.
_ROOM: Final = 4


def row_cells(row: Row, *, intervals: bool = False) -> list[Cell]:
    """Return the numbers of a row, the best and the second best marked."""
    digits = small_digits([cell.value for cell in row.cells if cell is not None])
    cells = [
        Cell("-")
        if cell is None
        else number(cell.value, cell.interval if intervals else None, digits=digits)
        for cell in row.cells
    ]
    return ranked(cells, "higher" if row.higher_is_better else "lower", places=SECOND)


def as_table(artifact: TableArtifact, *, intervals: bool = False) -> Table:
    """Return a table of the paper, its rows followed by the published ones."""
    columns = (
        *(Column(word, is_number=False) for word in artifact.words),
        *map(Column, artifact.columns),
    )
    rows: list[tuple[Cell, ...]] = []
    floors = [_mean_floor(row) for row in artifact.rows]
    floored = any(floor is not None for floor in floors)
    if floored:
        columns = (*columns, Column("noise floor"))
    for row, floor in zip(artifact.rows, floors, strict=True):
        last = (number(floor),) if floored else ()
        rows.append((*map(Cell, row.labels), *row_cells(row, intervals=intervals), *last))
        if row.published is not None:
            last = (number(None),) if floored else ()
            values = _published(row, artifact.columns)
            rows.append((*map(Cell, _paper_labels(row)), *values, *last))
    return Table(artifact.title, columns, tuple(rows), artifact.notes)


def table_markdown(artifact: TableArtifact) -> str:
    """Return the table in Markdown: best bold, second underlined, intervals if there is room."""
    intervals = len(artifact.columns) <= _ROOM
    table = as_table(artifact, intervals=intervals)
    legend = ["Bold: best of the row; underlined: second best."]
    if table.columns[-1].head == "noise floor":
        legend.append(
            "Noise floor: what a perfectly calibrated model shows on as many rows, the mean over"
            " the methods."
        )
    if intervals and any(c and c.interval for row in artifact.rows for c in row.cells):
        legend.append(f"In brackets: 95 % bootstrap interval over rows. {HOLDS_ITS_VALUE}")
    notes = (*legend, *artifact.notes)
    return markdown.document(Table(table.title, table.columns, table.rows, notes))


def table_latex(artifact: TableArtifact) -> str:
    """Return the table in LaTeX; it needs no package."""
    return latex.render(as_table(artifact))


def table_csv(table: TableArtifact) -> str:
    """Return a line for each number, in percent and full precision, with all that belongs to it."""
    words = [word.replace(" ", "_") for word in table.words]
    header = ("suite", *words, "method", "value", "low", "high", "noise_floor", "rank", "knew")
    paper = any(row.published is not None for row in table.rows)
    more = ("paper_network", "paper", "paper_error") if paper else ()
    lines: list[Sequence[object]] = []
    for row in table.rows:
        for column, cell, shown in zip(table.columns, row.cells, row_cells(row), strict=True):
            found = (None,) * 4 if cell is None else (cell.value, cell.low, cell.high, cell.floor)
            numbers = [None if value is None else 100 * value for value in found]
            knew = "" if cell is None else cell.knew
            line = [row.suite, *row.labels, column, *numbers, shown.rank, knew]
            published = row.published
            if paper and published is not None:
                line += [published.network, published.values.get(column), published.error]
            elif paper:
                line += [None, None, None]
            lines.append(line)
    return csv.render((*header, *more), lines)


def figure_csv(figure: FigureArtifact) -> str:
    """Return a line for each point of a figure, in the units of its axes."""
    lines: list[Sequence[object]] = []
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
    return csv.render(("panel", "series", "x_label", "x", "y_label", "y", "low", "high"), lines)


def figure_markdown(figure: FigureArtifact, picture: str | None) -> str:
    """Return a page with a figure's notes, and the picture of that file name."""
    title = markdown.plain(figure.title)
    shown = f"![{title}]({picture})\n\n" if picture else ""
    notes = "\n".join(f"- {markdown.plain(note)}" for note in figure.notes)
    return f"# {title}\n\n{shown}{notes}\n"


def _mean_floor(row: Row) -> float | None:
    """Return what chance alone gives, which hardly differs between methods; None if not known."""
    floors = [cell.floor for cell in row.cells if cell is not None and cell.floor is not None]
    return sum(floors) / len(floors) if floors else None


def _paper_labels(row: Row) -> list[str]:
    assert row.published is not None  # the callers looked
    mark = "†" if row.published.error else ""
    network = f"{row.published.network} (paper){mark}"
    return [row.labels[0], network, *row.labels[2:]]


def _published(row: Row, columns: Sequence[str]) -> list[Cell]:
    assert row.published is not None
    values = row.published.values
    return [number(values.get(column), percent=False, digits=2) for column in columns]
