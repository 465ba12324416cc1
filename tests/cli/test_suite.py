"""`wildcal suite`: whole outputs, and one line for what can go wrong."""

import json

import numpy as np
import pytest

from wildcal._old import suites
from wildcal.cli.main import run
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.io.suite.lock import writing


def rows(*logits):
    return np.log(np.array(logits))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A suite whose numbers can be checked by hand, and the shell standing beside it.

    Every row is the logarithm of positive numbers: their sum is exp(-energy), the share of the
    largest its confidence.
    """
    writer = SuiteWriter(
        tmp_path / "tiny",
        network={"name": "tiny", "n_parameters": 12},
        data={"name": "drawn\x1b[31m"},
        seed=7,
        versions={"numpy": "2.0", "torch": "2.4"},
        n_classes=2,
        class_names=["cat", "[bold]dog"],
    )
    even, sure = [1, 1], [1, 9]
    writer.add("val", rows(sure, sure), [1, 1], role="tune", shift="none")
    writer.add("test", rows(sure, sure, even, sure), [1, 1, 0, 0], role="test", shift="none")
    for name, severity, logits, y in (
        ("fog", 1, rows(sure, sure), [1, 0]),
        ("snow", 1, rows(even, even), [0, 0]),
        ("fog", 5, rows(even), [1]),
    ):
        shifted = {"shift": "covariate", "corruption": name, "severity": severity}
        writer.add(f"{name}-{severity}", logits, y, role="test", **shifted)
    writer.add("v2", rows(sure), [1], role="test", shift="covariate")
    writer.add("svhn", rows(sure, even), [-1, -1], role="test", shift="semantic")
    shifted = {"shift": "covariate", "corruption": "blur", "severity": 2}
    writer.add("blur-2", rows(even), [0], role="tune", **shifted)
    writer.finish(writer.names)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tiny"


# ln 2 = 0.693, ln 10 = 2.303.
SHOWN = """\
tiny: 2 classes, 8 splits, 15 rows, float32, complete
network   n_parameters 12, name tiny
data      name drawn?[31m
versions  numpy 2.0, torch 2.4
seed      7

  split        role   shift       cells   rows   accuracy   confidence   energy
 ───────────────────────────────────────────────────────────────────────────────
  clean        tune   none            1      2     100.00        90.00   -2.303
  clean        test   none            1      4      75.00        80.00   -1.900
  severity 1   test   covariate       2      4      75.00        70.00   -1.498
  severity 5   test   covariate       1      1       0.00        50.00   -0.693
  severity 2   tune   covariate       1      1     100.00        50.00   -0.693
  svhn         test   semantic        1      2          -        70.00   -1.498
  v2           test   covariate       1      1     100.00        90.00   -2.303

Raw logits: accuracy and mean confidence in percent, mean -logsumexp(z).
"""


def lines(text):
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def test_show(folder, capsys):
    assert run(["suite", "show", "tiny"]) == 0
    out, err = capsys.readouterr()
    assert lines(out) == SHOWN
    assert err == ""


def test_show_splits(folder, capsys):
    assert run(["suite", "show", "tiny", "--splits", "--verify"]) == 0
    out = capsys.readouterr().out
    assert "15 rows, float32, complete, every content hash matches\n" in out
    names = [line.split()[0] for line in lines(out).splitlines()[8:-2]]
    assert names == [split.name for split in Suite.open(folder).splits]
    assert lines(out).splitlines()[10] == (
        "  fog-1    test   covariate       1      2      50.00        90.00   -2.303"
    )


def test_show_json(folder, capsys):
    assert run(["suite", "show", "tiny", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("class_names") == ["cat", "[bold]dog"]
    summary = document.pop("summary")
    assert document == {
        "path": "tiny",
        "network": {"name": "tiny", "n_parameters": 12},
        "data": {"name": "drawn\x1b[31m"},
        "seed": 7,
        "versions": {"numpy": "2.0", "torch": "2.4"},
        "n_classes": 2,
        "complete": True,
        "neighbors": None,
        "verified": False,
    }
    assert len(summary) == 7
    assert summary[2] == {
        "name": "severity 1",
        "role": "test",
        "shift": "covariate",
        "corruption": None,
        "severity": 1,
        "cells": 2,
        "rows": 4,
        "accuracy": 0.75,
        "mean_confidence": pytest.approx(0.7),
        "mean_energy": pytest.approx(-np.log(20) / 2),
    }
    assert summary[5]["accuracy"] is None


def test_pack(folder, capsys):
    assert run("suite pack tiny -o tiny.npz --dtype float16".split()) == 0
    assert capsys.readouterr() == ("", "Wrote 8 splits to tiny.npz (0.0 MB).\n")
    assert {split.dtype for split in Suite.open("tiny.npz", verify=True).splits} == {"float16"}
    assert run(["suite", "show", "tiny.npz", "--verify"]) == 0
    assert "tiny.npz: 2 classes, 8 splits, 15 rows, float16, complete" in capsys.readouterr().out


def test_unfinished(folder, capsys):
    writer = SuiteWriter(
        "half", network={}, data={}, seed=0, versions={}, n_classes=2, class_names=["a", "b"]
    )
    assert run(["suite", "show", "half"]) == 0
    assert capsys.readouterr().out == (
        "half: 2 classes, 0 splits, 0 rows, UNFINISHED: its extraction has stopped, and goes on"
        " when it is started again\n"
        "network   -\ndata      -\nversions  -\nseed      0\n"
    )
    writer.add("val", [[0, 3]], [1], role="tune", shift="none")
    assert run(["suite", "show", "half"]) == 0
    assert "1 splits, 1 rows, float32, UNFINISHED" in capsys.readouterr().out
    with writing("half"):
        assert run(["suite", "show", "half"]) == 0
    assert "UNFINISHED: its extraction is running" in capsys.readouterr().out


def test_a_suite_that_grows_while_it_is_read(folder, capsys):
    writer = SuiteWriter(
        "half", network={}, data={}, seed=0, versions={}, n_classes=2, class_names=["a", "b"]
    )
    writer.add("val", [[0, 3]], [1], role="tune", shift="none")
    np.save("half/val.logits.npy", np.zeros((2, 2), np.float32))  # and the manifest is to come
    assert run(["suite", "show", "half"]) == 1
    assert "it must have shape (1, 2), got (2, 2)." in capsys.readouterr().err
    with writing("half"):
        assert run(["suite", "show", "half"]) == 1
    assert capsys.readouterr().err == (
        "error: half grew while it was read: its extraction is running. Try again.\n"
    )


def test_a_shipped_suite_goes_by_its_name(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "shipped").mkdir()
    Suite.open(folder).pack(tmp_path / "shipped" / "cifar10-tiny.npz")
    monkeypatch.setattr(suites, "_folder", lambda: tmp_path / "shipped")
    assert run(["suite", "show", "cifar10-tiny"]) == 0
    assert "8 splits" in capsys.readouterr().out
    assert run(["suite", "show", "cifar10-big"]) == 1
    assert capsys.readouterr().err == (
        "error: cifar10-big does not exist, and no suite of that name comes with wildcal"
        " (cifar10-tiny). Did you mean cifar10-tiny?\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("suite show nothing", 1, "error: nothing does not exist, and no suite of that name"),
        ("suite pack tiny -o tiny.zip", 1, "error: cannot pack into tiny.zip: its name must end"),
        ("suite pack tiny -o no/where.npz", 1, "error: cannot write no/where.npz: the folder no"),
        ("suite pack tiny", 2, "Missing option '-o'"),
        (
            "suite pack tiny -o x.npz --step 0.1",
            1,
            "error: step must be a power of two of at most 1",
        ),
        ("suite pack tiny -o x.npz --dtype int8", 2, "'int8' is not one of"),
        ("suite shout", 2, "No such command 'shout'"),
    ],
)
def test_what_goes_wrong(folder, capsys, words, code, text):
    assert run(words.split()) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert text in err


def test_damage_is_one_line(folder, capsys):
    np.save(folder / "val.logits.npy", np.zeros((2, 2), np.float32))
    assert run(["suite", "show", "tiny", "--verify"]) == 1
    assert capsys.readouterr() == (
        "",
        "error: tiny: split val was changed after it was written (its SHA-256 does not match)."
        " Extract it again, or restore the file.\n",
    )


@pytest.mark.parametrize("words", [[], ["show"], ["pack"]])
def test_help_ends_with_an_example(words, capsys):
    assert run(["suite", *words, "--help"]) == 0
    assert "Example:\n    wildcal suite " in capsys.readouterr().out


@pytest.fixture
def with_distances(tmp_path):
    writer = SuiteWriter(
        tmp_path / "near",
        network={},
        data={},
        seed=0,
        versions={},
        n_classes=2,
        class_names="ab",
    )
    writer.add("val", [[0.0, 2.0], [3.0, 1.0]], [1, 0], role="tune", shift="none")
    writer.add("test", [[0.0, 2.0], [3.0, 1.0]], [1, 0], role="test", shift="none")
    layers = [{"name": "stem", "width": 16}, {"name": "logits", "width": 2}]
    writer.describe(neighbors={"layers": layers, "ranks": [1, 50], "train_rows": 90})
    writer.add_distances("val", np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]]))
    writer.finish(["val", "test"])
    return tmp_path / "near"


def test_show_distances(with_distances, capsys):
    assert run(["suite", "show", str(with_distances)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[5] == (
        "distances neighbors 1 and 50 at stem (16), logits (2), train_rows 90; 1 splits without"
    )


def test_pack_ranks(with_distances, tmp_path, capsys):
    words = ["suite", "pack", str(with_distances), "-o", str(tmp_path / "s.npz"), "--ranks"]
    assert run([*words, "50"]) == 0
    assert Suite.open(tmp_path / "s.npz").neighbors["ranks"] == [50]
    assert run([*words, "none"]) == 0
    assert Suite.open(tmp_path / "s.npz").neighbors is None
    assert run([*words, "2"]) == 1
    assert "to the neighbors 1, 50, not to 2;" in capsys.readouterr().err
    assert run([*words, "x"]) == 2
    assert "give whole numbers such as 1,50, or none." in capsys.readouterr().err


def test_without_the_data_package(monkeypatch, capsys):
    monkeypatch.setattr(suites, "_folder", lambda: None)
    assert run(["suite", "show", "cifar10-resnet20"]) == 1
    assert capsys.readouterr().err == (
        "error: cifar10-resnet20 does not exist; the suites that come with wildcal are not"
        ' installed: pip install "wildcal[suites]"\n'
    )
    assert run(["demo", "-o", "demo"]) == 1
    assert 'pip install "wildcal[suites]"' in capsys.readouterr().err
