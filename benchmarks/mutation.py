"""Put faults into the core, one at a time, and ask the tests.

    python -m benchmarks.mutation --mutants 300 --seed 0

Needs coverage (``pip install coverage``).

A fault is small: in `core`, `metrics` or `io/artifact` a comparison is turned, a sign changed, a
constant moved, a return value lost. It is found if a test fails, or does not end. Faults are drawn
at random by the seed, from the three by turns. The tests nearest to the file are asked first, then
those others of its room that run the faulty line at all (`reach.py`), the quickest first. Each
fault is tried in a fork of one process that has imported what is common, and no file is touched. A
fault is known by its function and its text, so that a change elsewhere does not lose its answer.

Results are kept in benchmarks/mutation.json after each fault: the same command goes on where it
was, --again asks only about those that no test found; what is found then was mended by new tests.
docs/reliability.md is made from this file.
"""

import argparse
import ast
import copy
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import platform
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import zip_longest
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from benchmarks.reach import reached

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
OUTPUT = Path(__file__).with_name("mutation.json")
SECONDS = 300
"""Of processor time, after which a fault counts as found: the tests take a tenth of it."""

PASSED, FOUND, UNREAD = 0, 1, 3
"""How a fork ends: its tests passed, or did not, or passed without the faulty file."""

ROOMS = {
    "core": [
        "tests/core",
        "tests/calibrators/test_temperature.py",
        "tests/io/test_wrong_inputs.py",
    ],
    "metrics": ["tests/metrics", "tests/reference/test_metrics_vectors.py"],
    "io": ["tests/io/test_artifact.py", "tests/io/test_files.py"],
}
"""The tests that are asked. Those of other rooms reach the core as well, but take too long."""

ELSEWHERE = ["tests/core/test_one_thread.py::test_every_method_estimator_and_metric"]
"""Tests of what other processes answer, which have no fault: they find none, and take long."""

_COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


@dataclass(frozen=True)
class Fault:
    """A place in a file and what is done there."""

    file: str
    index: int
    """Of the node in the order of `ast.walk`."""
    lines: range
    """Of the statement: one of them is run whenever the fault is."""
    scope: str
    """Such as `Rows.tuning`, or nothing."""
    before: str
    after: str
    number: int = 1
    """Among those in the same scope with the same text."""

    @property
    def name(self) -> str:
        """How it is kept."""
        place = ":".join(part for part in (self.file, self.scope) if part)
        again = f" ({self.number})" if self.number > 1 else ""
        return f"{place}: {self.before} -> {self.after}{again}"


def changed(node: ast.AST) -> ast.AST | None:
    """Return what a node becomes, None if it stays.

    >>> ast.unparse(changed(ast.parse("a < b", mode="eval").body))
    'a <= b'
    >>> ast.unparse(changed(ast.parse("return a + 1").body[0]))
    'return None'
    """
    new: Any = copy.copy(node)
    match node:
        case ast.Compare(ops=[one]) if type(one) in _COMPARED:
            new.ops = [_COMPARED[type(one)]()]
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _COMPUTED:
            new.op = _COMPUTED[type(op)]()
        case ast.BoolOp(op=op):
            new.op = ast.And() if isinstance(op, ast.Or) else ast.Or()
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return operand
        case ast.Constant(value=bool() as value):
            new.value = not value
        case ast.Constant(value=int() | float() as value):
            new.value = value + 1
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            new.value = ast.Constant(None)
        case _:
            return None
    return new


def faults(file: Path) -> Iterator[Fault]:
    """Yield the faults that could be put into a file; messages and types are left alone."""
    tree = ast.parse(file.read_text("utf-8"))
    idle = set(_idle(tree))
    places = dict(_places(tree, "", range(0)))
    seen: Counter[str] = Counter()
    for index, node in enumerate(ast.walk(tree)):
        after = None if node in idle else changed(node)
        if after is not None:
            scope, lines = places[node]
            before, then = (ast.unparse(n).splitlines()[0][:80] for n in (node, after))
            seen[text := f"{scope}: {before} -> {then}"] += 1
            name = file.relative_to(SOURCE).as_posix()
            yield Fault(name, index, lines, scope, before, then, seen[text])


def _places(node: ast.AST, scope: str, lines: range) -> Iterator[tuple[ast.AST, tuple[str, range]]]:
    """Yield every node below one with its scope and the lines of its statement."""
    if isinstance(node, ast.stmt):
        last = node.end_lineno or node.lineno
        if isinstance(body := getattr(node, "body", None), list):  # its head alone
            last = max(node.lineno, body[0].lineno - 1)
        above = [n.lineno for n in getattr(node, "decorator_list", [])]
        lines = range(min([node.lineno, *above]), last + 1)
    elif isinstance(node, ast.excepthandler | ast.match_case):
        lines = range(lines.start, node.body[0].lineno)
    yield node, (scope, lines)
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        scope = f"{scope}.{node.name}".lstrip(".")
    for child in ast.iter_child_nodes(node):
        yield from _places(child, scope, lines)


def _idle(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that are no arithmetic: annotations, formatted text, calls of exceptions."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        match node:
            case ast.AnnAssign() | ast.arg():
                parts = [node.annotation]
            case ast.FunctionDef():
                parts = [node.returns]
            case ast.JoinedStr() | ast.Raise():
                parts = [node]
        for part in parts:
            if part is not None:
                yield from ast.walk(part)


class _Mutated(importlib.machinery.SourceFileLoader):
    """Loads one module with a fault in it."""

    def __init__(self, name: str, fault: Fault) -> None:
        super().__init__(name, str(SOURCE / fault.file))
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(Path(self.path).read_text("utf-8"))
        found = list(ast.walk(tree))[self._fault.index]
        after = changed(found)

        class Put(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> Any:
                return after if node is found else self.generic_visit(node)

        tree = ast.fix_missing_locations(Put().visit(tree))
        return compile(tree, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, fault: Fault) -> None:
        self._fault, self.read = fault, False
        self._name = fault.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        self.read = True
        loader = _Mutated(fullname, self._fault)
        return importlib.util.spec_from_file_location(fullname, loader.path, loader=loader)


def own_tests(file: str) -> list[str]:
    """Return the tests nearest to a file of the package: those of its name, and its doctests."""
    room, stem = Path(file).parts[1], Path(file).stem
    return [*_paths((ROOT / "tests" / room).glob(f"test_*{stem}*.py")), f"src/{file}"]


def other_tests(fault: Fault, kept: Path) -> list[str]:
    """Return the other tests of the room that run a fault, the quickest first."""
    room, own = Path(fault.file).parts[1], own_tests(fault.file)
    reach = {test: reached(test, _run, kept) for test in tests(room) if test not in own}
    touch = [t for t, found in reach.items() if found.touches(fault.file, fault.lines)]
    return sorted(touch, key=lambda test: reach[test].seconds)


def tests(room: str) -> list[str]:
    """Return the files of tests of a room."""
    places = [ROOT / place for place in ROOMS[room]]
    return _paths(f for p in places for f in ([p] if p.is_file() else p.glob("test_*.py")))


def _paths(files: Iterable[Path]) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


def found_by_tests(fault: Fault, kept: Path) -> bool:
    """Whether a test fails, or never ends, in a fork that has the fault."""
    own = own_tests(fault.file)
    for test in own:
        reached(test, _run, kept)  # or they fail without it
    first = _asked(own, fault)
    if first == FOUND:
        return True
    second = _asked(other_tests(fault, kept), fault)
    if first == second == UNREAD:
        raise RuntimeError(f"no test of {fault.file} imports it")
    return second == FOUND


def _asked(files: list[str], fault: Fault) -> int:
    """Return how a fork ends that has a fault and runs some tests."""
    if not files:
        return UNREAD
    child = os.fork()
    if child == 0:
        signal.alarm(15 * SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        finder = _Finder(fault)
        sys.meta_path.insert(0, finder)
        try:
            well = _run(*files)
        except BaseException:
            well = False
        os._exit(FOUND if not well else PASSED if finder.read else UNREAD)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code in (PASSED, UNREAD) else FOUND


def _run(*files: str) -> bool:
    """Whether the tests of some files pass; what they say is not kept."""
    import pytest

    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    # Plain: a file that is given by its path would be rewritten, and read without its fault.
    words = ["-x", "-p", "no:xdist", "-p", "no:cacheprovider", "--assert=plain"]
    words += [f"--deselect={test}" for test in ELSEWHERE]
    return pytest.main([*words, *files]) in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


def main() -> None:
    """Try faults until the number is reached."""
    options = _options()
    os.chdir(ROOT)
    files = [
        *sorted((SOURCE / "wildcal" / "core").glob("*.py")),
        *sorted((SOURCE / "wildcal" / "metrics").glob("*.py")),
        SOURCE / "wildcal" / "io" / "artifact.py",
    ]
    every = [fault for file in files for fault in faults(file)]
    names = {fault.name for fault in every}
    drawn = spread(every, options.seed)[: options.mutants]
    kept = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {"tried": {}}
    # What stood in code that has changed since is asked again, as something new.
    tried = {name: found for name, found in kept["tried"].items() if name in names}
    mended = [name for name in kept.get("mended", []) if name in names]
    again = options.again is not None
    if again:
        words = options.again or [""]
        left = [fault for fault in every if tried.get(fault.name) is False]
        drawn = [fault for fault in left if any(word in fault.name for word in words)]
    _warm()
    for fault in drawn:
        if fault.name in tried and not again:
            continue
        before, tried[fault.name] = tried.get(fault.name), found_by_tests(fault, options.kept)
        if before is False and tried[fault.name]:
            mended.append(fault.name)
        print("found   " if tried[fault.name] else "SURVIVED", fault.name, flush=True)
        counts = {"seed": options.seed, "possible": len(every)}
        _keep({**counts, "tried": tried, "mended": mended})


def spread(every: Sequence[Fault], seed: int) -> list[Fault]:
    """Return the faults in random order, the rooms by turns, so that a small one has its share.

    The order is that of a hash: one fault more or less does not change it for the others.
    """

    def drawn(fault: Fault) -> bytes:
        return hashlib.sha256(f"{seed} {fault.name}".encode()).digest()

    rooms: dict[str, list[Fault]] = {}
    for fault in sorted(every, key=drawn):
        rooms.setdefault(Path(fault.file).parts[1], []).append(fault)
    turns = zip_longest(*(rooms[name] for name in sorted(rooms)))
    return [fault for turn in turns for fault in turn if fault is not None]


def _keep(document: dict[str, Any]) -> None:
    document |= {"date": date.today().isoformat(), "Python": platform.python_version()}
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n")


def _warm() -> None:
    """Import what every fork needs, and nothing of the package."""
    names = ["pytest", "_pytest.doctest", "hypothesis", "scipy.stats", "scipy.optimize"]
    names += ["scipy.special", "scipy.sparse", "scipy.integrate", "click.testing", "rich.table"]
    warmed: list[Callable[..., Any] | ModuleType] = [importlib.import_module(n) for n in names]
    assert warmed
    assert not any(name.partition(".")[0] == "wildcal" for name in sys.modules)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again",
        nargs="*",
        metavar="WORD",
        help="ask once more about survivors, or those with a word in their names",
    )
    parser.add_argument("--kept", type=Path, default=Path("campaign-reach").absolute())
    return parser.parse_args()


if __name__ == "__main__":
    main()
