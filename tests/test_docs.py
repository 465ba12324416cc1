"""The documentation is true: examples run, computed parts are current, everything is mentioned."""

import ast
import doctest
import importlib
import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import click
import pytest

from wildcal import CALIBRATORS, metrics
from wildcal.cli.main import COMMANDS, cli

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, needs):
    if ">>> import torch" in page.read_text("utf-8"):
        needs("torch")
    if "wildcal.interop.onnx" in page.read_text("utf-8"):
        needs("ndonnx")
    results = doctest.testfile(str(page), module_relative=False)
    assert results.failed == 0


# tests/vision/test_tutorial.py runs the commands of the page on images.
TUTORIALS = sorted(
    set((ROOT / "docs" / "tutorials").glob("*.md")) - {ROOT / "docs/tutorials/images.md"}
)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_every_block_of_a_tutorial_is_run(page):
    """A block is an example that `test_examples_run` runs to its end, or what pip is told."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    blocks = [text for language, text in fenced if language == "python"]
    assert len(blocks) >= 3
    assert all(text.startswith(">>> ") and text.endswith("\n\n") for text in blocks)
    assert all(text.startswith("pip install ") for language, text in fenced if not language)
    assert all(text.startswith("wildcal ") for language, text in fenced if language == "text")
    run = doctest.DocTestParser().get_examples(page.read_text("utf-8"))
    assert sum(text.count(">>> ") for text in blocks) == len(run)


def command_lines():
    """Yield the lines of the pages that call `wildcal`, with the page."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in re.findall(r"^```(?:bash|text)?\n(.*?)^```$", text, re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("wildcal "):
                    yield pytest.param(line, id=f"{page.stem}: {line[:50]}")


@pytest.mark.parametrize("line", list(command_lines()))
def test_commands_have_these_options(line):
    """click knows the command, and each option takes the given number of values."""
    words = shlex.split(line, comments=True)[1:]
    words = words[: next((i for i, word in enumerate(words) if word in "|><&&"), None)]
    command, context = cli, click.Context(cli, info_name="wildcal")
    while isinstance(command, click.Group):
        assert words, line
        name, *words = words
        command = command.get_command(context, name)
        assert command is not None, name
        context = click.Context(command, info_name=name, parent=context)
    command.make_parser(context).parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_blocks_exist(page):
    """Also in blocks that do not run, because they need a package or data of their own."""
    fenced = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    for block in fenced:
        if block.startswith((">>> ", "--8<--")):
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("wildcal"):
                module = importlib.import_module(node.module)
                assert [a.name for a in node.names if not hasattr(module, a.name)] == []


def test_size_of_the_documentation():
    pages = PAGES[1:]
    assert len(pages) <= 33
    assert sum(len(page.read_text("utf-8").split()) for page in pages) <= 30_000
    assert len(PAGES[0].read_text("utf-8").split()) <= 450


def test_computed_parts_are_current(needs):
    """What csv files, which studies write, and the code itself say."""
    needs("torch")  # which counts the weights of the networks
    spec = spec_from_file_location("docs_make", ROOT / "docs" / "make.py")
    spec.loader.exec_module(make := module_from_spec(spec))
    assert not make.outdated(), "run docs/make.py"


@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_calibrator_is_documented(name):
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_documented(name):
    assert f"wildcal {name}" in TEXT


@pytest.mark.parametrize("name", metrics.__all__)
def test_every_metric_is_documented(name):
    base = name.removesuffix("_per_sample")
    assert f"`{base}" in TEXT or name in ("Interval", "PairedDifference", "Reliability")


def test_every_network_that_pages_name_comes_with_the_package():
    named = set(re.findall(r"`wildcal:([a-z0-9-]+)`|--network wildcal:([a-z0-9-]+)", TEXT))
    names = {name for pair in named for name in pair if name}
    assert names
    weights = ROOT / "packages" / "suites" / "src" / "wildcal_suites" / "weights"
    assert names <= {path.stem for path in weights.glob("*.safetensors")}


def test_links_lead_somewhere():
    # Pages that an index shows too have whole addresses.
    shown = [ROOT / "README.md", ROOT / "packages" / "suites" / "README.md"]
    for page in shown:
        text = page.read_text("utf-8")
        ours = (
            r"https://(?:github.com/wildcal/wildcal/blob|raw.githubusercontent.com/wildcal/wildcal)"
        )
        targets = re.findall(rf"{ours}/main/([^)#\s]+)", text)
        assert targets
        assert [target for target in targets if not (ROOT / target).exists()] == []
        assert re.findall(r"\]\((?!https:)", text) == []
        given = set(re.findall(r"^\[(.+)\]:", text, re.M))
        assert set(re.findall(r"\]\[([^\]]+)\]", text)) <= given
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_project_speaks_of_itself_alone():
    """No machine paths and no hosts but public ones that a reader can visit."""
    for path in [*PAGES, *ROOT.glob("*.md"), *(ROOT / "src").rglob("*.py")]:
        text = path.read_text("utf-8")
        assert "/work/" not in text, path
        assert "/root/" not in text, path
