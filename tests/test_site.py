"""The site has every page and every public name, without building it."""

import importlib
import re
from pathlib import Path

import wildcal

ROOT = Path(__file__).parents[1]
MODULES = {"accuracy", "metrics", "plots", "suites", "window"}


def test_every_page_is_in_the_navigation() -> None:
    there = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    assert set(re.findall(r"[\w/-]+\.md", navigation)) == there


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(p.read_text() for p in (ROOT / "docs" / "reference").glob("*.md"))
    entries = set(re.findall(r"^::: (wildcal\S+)", pages, re.MULTILINE))
    assert entries >= {f"wildcal.{module}" for module in MODULES}
    shown = {entry.rpartition(".")[2] for entry in entries}
    for entry in entries & {f"wildcal.{module}" for module in (*MODULES, "stream")}:
        shown |= set(importlib.import_module(entry).__all__)
    assert shown >= set(wildcal.__all__) - {"__version__", "CALIBRATORS"}
