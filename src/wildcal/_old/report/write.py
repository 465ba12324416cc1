"""Write an artifact to files: each whole or not at all, the same bytes for the same numbers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from wildcal._old.io.files import replacing
from wildcal._old.report.model import FigureArtifact, TableArtifact
from wildcal._old.report.tables import (
    figure_csv,
    figure_markdown,
    table_csv,
    table_latex,
    table_markdown,
)

TEXTS: Final[dict[str, tuple[str, Callable[[TableArtifact], str]]]] = {
    "md": (".md", table_markdown),
    "csv": (".csv", table_csv),
    "latex": (".tex", table_latex),
}
"""The forms of a table: the ending of the file, and the function that makes the text."""
PICTURES: Final = ("png", "svg", "pdf")


def write_artifact(
    made: TableArtifact | FigureArtifact,
    folder: Path,
    *,
    texts: Sequence[str] = tuple(TEXTS),
    pictures: Sequence[str] = ("png",),
) -> list[Path]:
    """Write a table in every form of `texts`, or a figure in every form of `pictures`.

    For a figure, `texts` may ask for its data ("csv") and its notes ("md"). Returns the files.
    """
    written = []
    if isinstance(made, TableArtifact):
        for form in texts:
            ending, text = TEXTS[form]
            written.append(_write(folder / f"{made.name}{ending}", text(made)))
        return written
    if "md" in texts:
        picture = next((f"{made.name}.{form}" for form in ("png", "svg") if form in pictures), None)
        written.append(_write(folder / f"{made.name}.md", figure_markdown(made, picture)))
    if "csv" in texts:
        written.append(_write(folder / f"{made.name}.csv", figure_csv(made)))
    if pictures:
        from wildcal._old.report.plots import (  # matplotlib is slow to import, and an extra
            draw,
            save,
        )

        figure = draw(made)
        for form in pictures:
            path = folder / f"{made.name}.{form}"
            with replacing(path) as temporary:
                save(figure, temporary)
            written.append(path)
    return written


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")
    return path
