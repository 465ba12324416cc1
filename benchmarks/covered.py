"""Count the lines and branches of the package that its tests reach.

    python -m benchmarks.covered [ROOM...]

Needs coverage (``pip install coverage``). A room is a file or folder of tests; without names, all
of them. Each runs in a process of its own, and what it reached is kept in the folder of --kept, so
that a run that was cut short goes on. Commands, servers and workers that a test starts as processes
are watched as well, unless they are killed. Writes benchmarks/covered.json, from which
docs/reliability.md is made.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUTPUT = Path(__file__).with_name("covered.json")
COVERAGE = [sys.executable, "-m", "coverage"]
SETTINGS = """\
[run]
branch = true
source = {source}
data_file = {data}
concurrency = thread, multiprocessing
patch = subprocess, _exit
sigterm = true
disable_warnings = no-data-collected, module-not-measured, module-not-imported
"""
"""Paths are absolute, for a process may be anywhere, and a signal must not lose the counts."""


def main() -> None:
    """Run the rooms that are not kept yet, and add all that are."""
    options = _options()
    kept: Path = options.kept
    kept.mkdir(parents=True, exist_ok=True)
    for room in options.rooms or rooms():
        data = kept / f"{Path(room).with_suffix('').as_posix().replace('/', '-')}.data"
        if not data.exists():
            print(f"{room}: {_run(room, data)}", flush=True)
    names = sorted(kept.glob("*.data"))
    both = str(kept / "combined")
    _coverage("combine", "--keep", "--quiet", f"--data-file={both}", *map(str, names))
    _coverage("json", "--quiet", f"--data-file={both}", "-o", str(kept / "report.json"))
    found = json.loads((kept / "report.json").read_text())
    document = {
        "date": date.today().isoformat(),
        "versions": {"Python": platform.python_version(), "coverage": found["meta"]["version"]},
        "rooms": [name.stem.replace("-", "/", 1) for name in names],
        "files": {name: counts(file["summary"]) for name, file in found["files"].items()},
    }
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n")


def rooms() -> list[str]:
    """Return the folders of tests and the files beside them, and the package for its doctests."""
    tests = ROOT / "tests"
    found = [path for path in sorted(tests.iterdir()) if any(path.glob("test_*.py"))]
    found += sorted(tests.glob("test_*.py"))
    return [*(path.relative_to(ROOT).as_posix() for path in found), "src"]


def counts(summary: dict[str, Any]) -> dict[str, int]:
    """Return what is kept of a file: how many lines and branches there are, and were reached.

    >>> counts({"num_statements": 3, "covered_lines": 2, "num_branches": 2, "covered_branches": 1})
    {'lines': 3, 'lines_reached': 2, 'branches': 2, 'branches_reached': 1}
    """
    return {
        "lines": summary["num_statements"],
        "lines_reached": summary["covered_lines"],
        "branches": summary["num_branches"],
        "branches_reached": summary["covered_branches"],
    }


def _run(room: str, data: Path) -> str:
    parts = data.with_suffix(".parts").absolute()
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    settings = parts / "settings"
    settings.write_text(SETTINGS.format(source=ROOT / "src" / "wildcal", data=parts / "part"))
    pytest = ["-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", room]
    done = subprocess.run(
        [*COVERAGE, "run", f"--rcfile={settings}", *pytest],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    beside = data.with_suffix(".new").absolute()
    _combine(parts, beside)
    beside.rename(data)
    shutil.rmtree(parts)
    said = done.stdout.strip().splitlines() or [done.stderr.strip()]
    return "\n".join([*(line for line in said if line.startswith(("FAILED", "ERROR"))), said[-1]])


def _combine(parts: Path, data: Path, tries: int = 5) -> None:
    """Add the files up; a process that outlives its test renames its own at last, so try again."""
    for left in reversed(range(tries)):
        there = [str(path) for path in sorted(parts.glob("part.*"))]
        try:
            _coverage("combine", "--keep", "--quiet", f"--data-file={data}", *there)
            return
        except subprocess.CalledProcessError:
            if not left:
                raise
            time.sleep(2)


def _coverage(*words: str) -> None:
    subprocess.run([*COVERAGE, *words], cwd=ROOT, check=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("covered", description=__doc__)
    parser.add_argument("rooms", nargs="*", help="such as tests/core; all without names")
    parser.add_argument("--kept", type=Path, default=Path("campaign-covered"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
