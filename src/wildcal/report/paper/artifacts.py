"""The tables and figures of the paper by name, and the files they are written to."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from wildcal.core.exceptions import InputError
from wildcal.io.atomic import atomic_write
from wildcal.report.paper import claims, tables
from wildcal.report.paper.study import Study
from wildcal.report.paper.tables import Missing, PaperTable
from wildcal.tables import to_csv, to_latex, to_markdown

TABLES: Final[dict[str, Callable[..., PaperTable | Missing]]] = {
    "table1": tables.table1,
    "table2": tables.table2,
    "table3": tables.table3,
    "table4": tables.table4,
    "table5": partial(tables.table4, name="table5"),
    "table6": tables.table6,
    "table7": tables.table7,
    "table8": tables.table8,
    "table9": partial(tables.table1, name="table9"),
    "claims": claims.claims,
}
# Name of the function in `figures`, which needs matplotlib.
FIGURES: Final = {
    "fig1": "fig1",
    "fig3": "fig3",
    "fig4": "fig4",
    "fig5": "fig5",
    "fig6": "fig6",
    "fig7": "fig4",
    "fig8": "fig5",
    "fig9": "fig6",
}
FORMATS: Final = ("md", "csv", "tex", "html")
PICTURES: Final = ("pdf", "png", "svg")


def choose(names: Sequence[str]) -> list[str]:
    """Return artifacts in the order of the paper; no name, or "all", means all.

    Examples
    --------
    >>> choose(["fig4", "table1"])
    ['table1', 'fig4']
    """
    known = [*TABLES, *FIGURES]
    for name in names:
        if name not in (*known, "all"):
            raise InputError(
                f"artifact must be one of {', '.join(known)} or all, got {name!r}.", "artifacts"
            )
    return [name for name in known if not names or "all" in names or name in names]


def make(name: str, study: Study, *, paper: bool = False) -> Any:
    """Return a `PaperTable`, a `PaperFigure`, or what is `Missing` for it."""
    if name in TABLES:
        return TABLES[name](study, paper=paper)
    from wildcal.report.paper import figures

    function = getattr(figures, FIGURES[name])
    return function(study) if FIGURES[name] == name else function(study, name)


def write(
    made: Any, folder: Path, *, formats: Sequence[str] = FORMATS, pictures: Sequence[str] = ("pdf",)
) -> list[Path]:
    """Write a table or a figure with its numbers, and return the files."""
    texts = _texts(made, [form for form in formats if form in FORMATS], pictures)
    written = []
    for suffix, text in texts.items():
        written.append(folder / f"{made.name}.{suffix}")
        with atomic_write(written[-1]) as file:
            file.write(text)
    if not isinstance(made, PaperTable):
        from wildcal.plots.style import save

        for name, figure in made.figures.items():
            for suffix in pictures:
                written.append(folder / f"{name}.{suffix}")
                save(figure, written[-1])
    return written


def _texts(made: Any, formats: Sequence[str], pictures: Sequence[str]) -> dict[str, str]:
    """Return the contents of the text files by suffix."""
    found = {}
    if "csv" in formats:
        found["csv"] = to_csv(made.records)
    if isinstance(made, PaperTable):
        if "md" in formats:
            found["md"] = to_markdown(made.table) + "\n"
        if "tex" in formats:
            found["tex"] = to_latex(made.table, label=f"tab:{made.name}", cell_notes=True)
        if "html" in formats:
            from wildcal.tables import to_html

            found["html"] = to_html(made.table) + "\n"
    elif "md" in formats:
        picture = next((p for p in ("png", "svg") if p in pictures), None)
        images = [f"![{name}]({name}.{picture})" for name in made.figures] if picture else []
        found["md"] = "\n\n".join([made.caption, *images, *made.notes]) + "\n"
    return found
