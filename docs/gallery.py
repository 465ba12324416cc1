"""Run the examples of the gallery and write its page, their figures and notebooks.

    python docs/gallery.py            all of them (make gallery)
    python docs/gallery.py NAME ...   some

A script of examples/gallery begins with a docstring: its title, and what it is about. `# %%` begins another
cell, and comments right below it are its text. What it prints is on the page, and it leaves one figure.
"""

import ast
import contextlib
import io
import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "examples" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
FILES = ROOT / "docs" / "gallery"  # figures and notebooks
# In the order of the page.
NAMES = (
    *("reliability", "energy", "severity", "windows", "stream"),
    *("density", "few_labels", "sklearn", "onnx", "own_shift"),
)
# Packages beyond `wildcal[suites,report]`.
EXTRAS = {"sklearn": ("sklearn",), "onnx": ("onnx", "sklearn"), "own_shift": ("sklearn",)}
INTRODUCTION = "# Gallery\n\nShort scripts on small data, each with one figure."


class Cell(NamedTuple):
    """Some sentences and the code below them, with the number of its first line."""

    text: str
    code: str
    line: int

    @property
    def last_line(self) -> int:
        """Return the number of the last line of the code."""
        return self.line + self.code.count("\n")


class Example(NamedTuple):
    """A script as a reader sees it."""

    title: str
    cells: list[Cell]


def read(name: str) -> Example:
    """Return the title and the cells of a script.

    >>> [len(cell.code) > 0 for cell in read("energy").cells]
    [True, True]
    """
    source = (SCRIPTS / f"plot_{name}.py").read_text("utf-8")
    title, _, about = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    _, _, body = source.partition('"""')[2].partition('"""')
    first, *rest = re.split(r"^# %%\n", body, flags=re.M)
    parts = [(about, first)]
    for part in rest:
        comment = re.match(r"(?:#.*\n)*", part)
        assert comment is not None
        text = re.sub(r"^# ?", "", comment[0], flags=re.M).strip()
        parts.append((text, part[comment.end() :]))
    cells = []
    for text, code in parts:
        before = source[: source.index(code.strip())]
        cells.append(Cell(text, code.strip(), 1 + before.count("\n")))
    return Example(title.removesuffix("."), cells)


def run(name: str, figure: Path) -> str:
    """Run a script, save its only figure, and return what it printed."""
    import matplotlib.pyplot as plt
    from matplotlib import rc_context

    from wildcal.plots import STYLE

    said = io.StringIO()
    show, plt.show = plt.show, lambda: None
    try:
        with rc_context(), contextlib.redirect_stdout(said):
            plt.switch_backend("agg")
            plt.close("all")
            runpy.run_path(str(SCRIPTS / f"plot_{name}.py"))
            (number,) = plt.get_fignums()
            with plt.style.context(STYLE):
                plt.figure(number).savefig(figure, dpi=160, metadata={"Software": None})
    finally:
        plt.show = show
        plt.close("all")
    return said.getvalue()


def section(name: str, said: str) -> str:
    """Return the section of a script, which includes its code by line numbers."""
    title, cells = read(name)
    install = "wildcal[" + ",".join(["suites", "report", *EXTRAS.get(name, ())]) + "]"
    file = f"examples/gallery/plot_{name}.py"
    script = f"https://github.com/wildcal/wildcal/blob/main/{file}"
    parts = [
        f"## {title}",
        cells[0].text,
        f'[Script]({script}) and [notebook](gallery/{name}.ipynb); `pip install "{install}"`.',
        f"![{title}](gallery/{name}.png)",
    ]
    for i, cell in enumerate(cells):
        parts += [cell.text] if i else []
        parts.append(f'```python\n--8<-- "{file}:{cell.line}:{cell.last_line}"\n```')
    parts.append(f"It prints:\n\n```text\n{said.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def notebook(name: str) -> str:
    """Return a script as a notebook that has not been run."""
    title, cells = read(name)
    listed: list[dict[str, Any]] = []
    for i, cell in enumerate(cells):
        text = f"# {title}\n\n{cell.text}" if i == 0 else cell.text
        listed.append({"cell_type": "markdown", "id": f"text-{i}", "metadata": {}, "source": text})
        listed.append(
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"code-{i}",
                "metadata": {},
                "outputs": [],
                "source": cell.code,
            }
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": listed, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1) + "\n"


def sections(page: str) -> dict[str, str]:
    """Return the sections of a page by their titles."""
    parts = re.split(r"^(?=## )", page, flags=re.M)[1:]
    return {part.partition("\n")[0].removeprefix("## "): part for part in parts}


def main(names: list[str]) -> None:
    """Write the sections, figures and notebooks of some examples, or of all."""
    found = sections(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    for name in names or NAMES:
        found[read(name).title] = section(name, run(name, FILES / f"{name}.png"))
        (FILES / f"{name}.ipynb").write_text(notebook(name), "utf-8")
    parts = [found[read(name).title].rstrip() for name in NAMES]
    PAGE.write_text("\n\n".join([INTRODUCTION, *parts]) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
