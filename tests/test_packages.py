"""What is published: a light package, and the data package beside it, built from the sources."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from wildcal.version import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DATA = ROOT / "packages" / "suites"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build a wheel of a folder; return its path and the names inside."""

    def build(folder):
        target = tmp_path_factory.mktemp("wheel")
        words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
        (path,) = target.glob("*.whl")
        return path, zipfile.ZipFile(path).namelist()

    return build


def test_the_package_is_light(wheel, needs):
    needs("hatchling")
    path, names = wheel(ROOT)
    assert path.stat().st_size <= 1.5e6
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"wildcal"}
    assert "wildcal/py.typed" in names
    assert not [name for name in names if name.endswith((".npz", ".safetensors"))]


def test_the_data_package_holds_data_alone(wheel, needs):
    needs("hatchling")
    path, names = wheel(DATA)
    assert path.stat().st_size <= 60e6
    held = [name for name in names if name.startswith("wildcal_suites/")]
    source = DATA / "src"
    there = [p for p in source.rglob("*") if p.suffix in (".npz", ".safetensors")]
    assert there
    assert set(held) == {
        "wildcal_suites/__init__.py",
        *(p.relative_to(source).as_posix() for p in there),
    }


def test_the_version_stands_in_one_place():
    """What repeats it is compared: the citation, the recipe, the newest version of the changes."""
    recipe = re.search(r'version: "(.+)"', (ROOT / "recipe" / "recipe.yaml").read_text()).group(1)
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M).group(1)
    heading = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M).group(1)
    assert (recipe, cited, heading) == (__version__, __version__, __version__)


def test_the_recipe_needs_what_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    _, _, run = (ROOT / "recipe" / "recipe.yaml").read_text().partition("  run:\n")
    needed = re.findall(r"^    - (\S+) (>=\S+)$", run, re.M)
    wanted = [f"python{project['requires-python']}", *project["dependencies"]]
    assert ["".join(line) for line in needed] == wanted


def test_every_extra_is_on_the_first_page():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (ROOT / "docs" / "start.md").read_text().partition("| extra |")[2].partition("\n\n")[0]
    named = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]]
    assert set(project["optional-dependencies"]) == {name for names in named for name in names}


def test_the_extra_asks_for_the_data_that_is_here():
    floor = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    data = tomllib.loads((DATA / "pyproject.toml").read_text())["project"]
    (wanted,) = floor["optional-dependencies"]["suites"]
    assert wanted == f"{data['name']}>={data['version'].rpartition('.')[0]}"
