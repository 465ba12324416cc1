"""The tables and figures of the paper by name, and the files they are written to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wildcal.core.validation import check_choice
from wildcal.io.atomic import atomic_write
from wildcal.plots.style import save
from wildcal.report.paper.claims import claims
from wildcal.report.paper.figures import FIGURES
from wildcal.report.paper.study import Study
from wildcal.report.paper.tables import SPECS, PaperTable, paper_table
from wildcal.tables import to_csv, to_latex, to_markdown

FORMATS: Final = ("md", "csv", "tex")
PICTURES: Final = ("pdf", "png", "svg")


def choose(names: Sequence[str]) -> list[str]:
    """Return artifacts in the order of the paper; no name, or "all", means all.

    Examples
    --------
    >>> choose(["fig4", "table1"])
    ['table1', 'fig4']
    """
    known = [*SPECS, "claims", *FIGURES]
    for name in names:
        check_choice("artifacts", name, (*known, "all"))
    return [name for name in known if not names or "all" in names or name in names]


def make(name: str, study: Study, *, paper: bool = False) -> Any:
    """Return a `PaperTable`, a `PaperFigure`, or what is `Missing` for it."""
    if name in SPECS:
        return paper_table(study, name, paper=paper)
    return claims(study) if name == "claims" else FIGURES[name](study, name)


def write(
    made: Any, folder: Path, *, formats: Sequence[str] = FORMATS, pictures: Sequence[str] = ("pdf",)
) -> list[Path]:
    """Write a table or a figure with its numbers, and return the files."""
    figures = {}
    if isinstance(made, PaperTable):
        texts = {
            "md": to_markdown(made.table) + "\n",
            "tex": to_latex(made.table, label=f"tab:{made.name}", cell_notes=True),
        }
    else:
        figures = made.figures
        images = [f"![{name}]({name}.{p})" for name in figures for p in pictures if p != "pdf"]
        texts = {"md": "\n\n".join([made.caption, *images, *made.notes]) + "\n"}
    texts["csv"] = to_csv(made.records)
    written = []
    for suffix in [form for form in formats if form in texts]:
        written.append(folder / f"{made.name}.{suffix}")
        with atomic_write(written[-1]) as file:
            file.write(texts[suffix])
    for name, figure in figures.items():
        for suffix in pictures:
            written.append(folder / f"{name}.{suffix}")
            save(figure, written[-1])
    return written
