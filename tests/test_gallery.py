"""Every example of the gallery runs; its section, figure and notebook are of the present script."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
_spec = spec_from_file_location("docs_gallery", ROOT / "docs" / "gallery.py")
_spec.loader.exec_module(gallery := module_from_spec(_spec))


def test_every_script_is_shown():
    scripts = {path.stem.removeprefix("plot_") for path in gallery.SCRIPTS.glob("*.py")}
    assert scripts == set(gallery.NAMES)
    assert {path.stem for path in gallery.FILES.glob("*.png")} == scripts
    titles = [gallery.read(name).title for name in gallery.NAMES]
    assert list(gallery.sections(gallery.PAGE.read_text("utf-8"))) == titles


@pytest.mark.parametrize("name", gallery.NAMES)
def test_an_example_runs_and_prints_what_the_page_says(name, needs, tmp_path):
    for package in ("matplotlib", *gallery.EXTRAS.get(name, ())):
        needs(package)
    said = gallery.run(name, tmp_path / "figure.png")
    shown = gallery.sections(gallery.PAGE.read_text("utf-8"))[gallery.read(name).title]
    assert shown.strip() == gallery.section(name, said).strip(), "make gallery"
    drawn, kept = (
        (folder / file).read_bytes()
        for folder, file in ((tmp_path, "figure.png"), (gallery.FILES, f"{name}.png"))
    )
    assert drawn[16:24] == kept[16:24]  # as wide and as high


@pytest.mark.parametrize("name", gallery.NAMES)
def test_a_notebook_is_the_script(name):
    kept = json.loads((gallery.FILES / f"{name}.ipynb").read_text("utf-8"))
    assert kept == json.loads(gallery.notebook(name))
    code = [cell["source"] for cell in kept["cells"] if cell["cell_type"] == "code"]
    source = (gallery.SCRIPTS / f"plot_{name}.py").read_text("utf-8")
    lines = {line for part in code for line in part.splitlines() if line}
    assert lines <= set(source.splitlines())
    assert "plt.show()" in lines
    for part in code:
        compile(part, name, "exec")
