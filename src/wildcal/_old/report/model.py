"""What an artifact of the paper consists of, before it is text or a picture."""

from dataclasses import dataclass
from typing import TypeAlias

from wildcal._old.evaluation.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Cell(Estimate):
    """One number of a table, a fraction, with its interval where there is one."""

    knew: str = ""
    """What the method knew when it was fitted."""


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the paper, in percent, by the titles of the columns."""

    network: str
    values: dict[str, float]
    error: str | None = None
    """What is known to be wrong with it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table; `cells` has None where a method could not be fitted."""

    suite: str
    labels: tuple[str, ...]
    cells: tuple[Cell | None, ...]
    higher_is_better: bool = False
    published: Published | None = None


@dataclass(frozen=True, slots=True)
class TableArtifact:
    """A table: `words` head the labels of the rows, `columns` the numbers."""

    name: str
    title: str
    words: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers that belong together in a figure, in the unit that its axis names."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """The data of one pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class FigureArtifact:
    """A figure: panels of one kind, a function of `wildcal._old.report.plots`, side by side."""

    name: str
    title: str
    kind: str
    panels: tuple[Panel, ...]
    n_columns: int = 1
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingInputs:
    """The answer of an artifact that could not be made: what it needs, and where that is from."""

    name: str
    title: str
    needs: str
    command: str | None
    """The command that makes it; None where no command does."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        try_this = f" Try: {self.command}" if self.command else ""
        return f"{self.name} needs {self.needs}.{try_this}"


Made: TypeAlias = TableArtifact | FigureArtifact | MissingInputs
