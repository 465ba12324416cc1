"""The faults that are put into the core on purpose are faults, and they are really put in."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from benchmarks import mutation  # noqa: E402
from benchmarks.campaign import tables  # noqa: E402
from benchmarks.mutation import SOURCE, Fault, changed, faults  # noqa: E402


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", "a <= b"),
        ("a is None", "a is not None"),
        ("a + b", "a - b"),
        ("a // b", "a * b"),
        ("a and b", "a or b"),
        ("not a", "a"),
        ("3", "4"),
        ("True", "False"),
        ("a < b < c", None),
        ("'text'", None),
    ],
)
def test_faults_by_hand(before: str, after: str | None) -> None:
    found = changed(ast.parse(before, mode="eval").body)
    assert (None if found is None else ast.unparse(found)) == after


def test_what_is_no_arithmetic_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation, "SOURCE", tmp_path)
    file = tmp_path / "f.py"
    file.write_text(
        'def f(x: "int" = 1) -> list[3]:\n'
        "    if x > 2:\n"
        '        raise ValueError(f"{x + 1}" + "a")\n'
        "    return x\n"
    )
    found = sorted((f.lines.start, f.before, f.after) for f in faults(file))
    assert found == [
        (1, "1", "2"),
        (2, "2", "3"),
        (2, "x > 2", "x >= 2"),
        (4, "return x", "return None"),
    ]


def test_a_module_is_read_with_its_fault() -> None:
    file = SOURCE / "wildcal" / "metrics" / "binning.py"
    every = list(faults(file))
    assert len({fault.name for fault in every}) == len(every)
    fault = next(f for f in every if f.after == "return None")
    finder = mutation._Finder(fault)
    assert finder.find_spec("wildcal.metrics.ks", None) is None
    assert not finder.read
    spec = finder.find_spec("wildcal.metrics.binning", None)
    assert finder.read
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.bin_edges(4) is None


def test_rooms_are_drawn_by_turns() -> None:
    one = range(1, 2)
    every = [Fault(f"wildcal/{n}.py", i, one, "", "a", "b", i) for i in range(4) for n in "ab"]
    every = [*(f for f in every if f.index < 2), *(f for f in every if "/a" in f.file)]
    rooms = [f.file for f in mutation.spread(every, 0)]
    assert rooms[:4] == ["wildcal/a.py", "wildcal/b.py"] * 2
    assert sorted(map(repr, mutation.spread(every, 1))) == sorted(map(repr, every))


def test_the_order_of_others_stays_when_a_fault_is_gone() -> None:
    every = [Fault("wildcal/a.py", i, range(1, 2), "", "a", "b", i) for i in range(9)]
    assert mutation.spread(every[1:], 0) == [f for f in mutation.spread(every, 0) if f.index]


def test_a_fault_knows_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "SOURCE", tmp_path)
    file = tmp_path / "f.py"
    file.write_text(
        "@cache\n"
        "class A:\n"
        "    def f(x, y=1):\n"
        "        if (\n"
        "            x\n"
        "            > 2):\n"
        "            return g(\n"
        "                -x,\n"
        "                x + 2)\n"
        "        return x + 2\n"
    )
    found = {f.name: (f.lines.start, f.lines.stop - 1) for f in faults(file)}
    assert found == {
        "f.py:A.f: 1 -> 2": (3, 3),
        "f.py:A.f: x > 2 -> x >= 2": (4, 6),
        "f.py:A.f: 2 -> 3": (4, 6),
        "f.py:A.f: return g(-x, x + 2) -> return None": (7, 9),
        "f.py:A.f: -x -> x": (7, 9),
        "f.py:A.f: x + 2 -> x - 2 (2)": (7, 9),
        "f.py:A.f: 2 -> 3 (3)": (7, 9),
        "f.py:A.f: return x + 2 -> return None": (10, 10),
        "f.py:A.f: x + 2 -> x - 2": (10, 10),
        "f.py:A.f: 2 -> 3 (2)": (10, 10),
    }


@pytest.mark.parametrize("name", tables.TABLES)
def test_the_page_can_be_made(name: str) -> None:
    text = tables.TABLES[name]()
    if name == "interpreters":
        assert text.startswith("| Python | date |")
        assert "| 3.12" in text
        return
    assert text.startswith("20")
    assert "| all" in text or "| attack |" in text
