"""Which file of tests runs which lines of the package; needs coverage (``pip install coverage``).

A file of tests that never runs a line cannot notice a fault in it. Each file is asked alone, in a
fork, so that what one prepares for the next (a cache, a shared fixture) counts for both. Answers
are kept, under a name that changes with the package and with the tests.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "wildcal"


@dataclass(frozen=True)
class Reach:
    """What a file of tests runs, and how long it takes."""

    lines: dict[str, list[int]]
    """By the path of the file in the package."""
    seconds: float
    """Of processor time."""

    def touches(self, file: str, lines: range) -> bool:
        """Whether any of the lines of a file is run.

        >>> Reach({"a.py": [1, 7]}, 0.5).touches("a.py", range(5, 8))
        True
        """
        return not set(lines).isdisjoint(self.lines.get(file, ()))


@cache
def reached(test: str, ask: Callable[[str], bool], kept: Path) -> Reach:
    """Return what `ask(test)` runs of the package: the tests of a file, and whether they pass."""
    kept.mkdir(parents=True, exist_ok=True)
    answer = kept / f"{_name(test)}.json"
    if not answer.exists():
        child = os.fork()
        if child == 0:
            try:
                _record(test, ask, answer)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        if not answer.exists():
            raise RuntimeError(f"{test} fails without any fault")
    found = json.loads(answer.read_text())
    return Reach(found["lines"], found["seconds"])


def _record(test: str, ask: Callable[[str], bool], answer: Path) -> None:
    import coverage

    watched = coverage.Coverage(data_file=None, source=[str(PACKAGE)])
    start = time.process_time()
    watched.start()
    passed = ask(test)
    watched.stop()
    if not passed:
        return
    data = watched.get_data()
    lines = {
        Path(file).relative_to(PACKAGE.parent).as_posix(): sorted(data.lines(file) or [])
        for file in data.measured_files()
    }
    beside = answer.with_suffix(".new")
    beside.write_text(json.dumps({"lines": lines, "seconds": time.process_time() - start}))
    beside.replace(answer)


def _name(test: str) -> str:
    """Return a name that stands for the package and a file of tests as they are now."""
    common = [f for f in sorted((ROOT / "tests").rglob("*.py")) if not f.name.startswith("test_")]
    total = hashlib.sha256(test.encode())
    for file in [*sorted(PACKAGE.rglob("*.py")), *common, ROOT / test]:
        total.update(file.read_bytes())
    return total.hexdigest()[:32]
