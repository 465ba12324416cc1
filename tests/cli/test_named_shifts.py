"""Suites of one's own files: shifts by their names, from `suite make` to the report."""

import csv
import io

import numpy as np
import pytest

from wildcal.cli.main import run
from wildcal._old.io.suite import Suite
from wildcal._old.metrics import ece
from wildcal._old.testing import make_suite

SUITE = make_suite(seed=5, n_tuning=300, n_test=200)
MAKE = "suite make --tune val.npz --test test.npz --shifted night=night.npz --shifted rain=rain.npz"
SHORT = "--methods ts --bootstrap 20"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = SUITE.tuning.y >= 0
    np.savez("val.npz", logits=SUITE.tuning.logits[known], y=SUITE.tuning.y[known])
    np.savez("ood.npz", logits=SUITE.tuning.logits[~known])
    np.savez("test.npz", logits=SUITE.clean.logits, y=SUITE.clean.y)
    np.savez("night.npz", logits=SUITE.shifted.logits, y=SUITE.shifted.y)
    np.savez("rain.npz", logits=2 * SUITE.shifted.logits, y=SUITE.shifted.y)
    return tmp_path


@pytest.mark.parametrize("name", ["mine", "mine.npz"])
def test_make_writes_every_split(folder, name):
    line = f"{MAKE} --ood ood.npz --test-ood far=ood.npz --note name=mlp --name rides -o {name}"
    assert run(line.split()) == 0
    suite = Suite.open(name, verify=True)
    shifts = {split.name: split.shift for split in suite.splits}
    assert shifts == {
        "tune": "none", "test": "none", "night": "covariate", "rain": "covariate",
        "ood-tune": "semantic", "far-test": "semantic",
    }  # fmt: skip
    np.testing.assert_array_equal(suite.split("night").logits, SUITE.shifted.logits)
    assert suite.network == {"name": "mlp"}
    assert suite.data["name"] == "rides"
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


def test_compare_shows_each_shift_with_interval_and_floor(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert run([*MAKE.split(), "-o", "mine"]) == 0
    assert run(f"suite compare mine {SHORT} --csv numbers.csv".split()) == 0
    out = capsys.readouterr().out
    for word in ("night", "floor of night", "rain", "floor of rain", "clean"):
        assert word in out
    assert "image" not in out
    assert " - " not in out
    with (folder / "numbers.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if r["metric"] == "ece"]
    assert {r["split"] for r in rows} == {"test", "night", "rain"}
    mine = {r["split"]: float(r["value"]) for r in rows if r["method"] == "identity"}
    z, y = SUITE.shifted.logits.astype(float), SUITE.shifted.y
    p = np.exp(z - z.max(axis=1, keepdims=True))
    confidence = p.max(axis=1) / p.sum(axis=1)
    assert mine["night"] == pytest.approx(ece(z.argmax(axis=1) == y, confidence), abs=1e-6)
    line = next(x for x in out.splitlines() if x.split()[:1] == ["identity"])
    assert f"{100 * np.mean(list(mine.values())):.2f} (" in line  # the average is of all three


def test_severities_are_as_ever(folder, capsys):
    line = "suite make --tune val.npz --test test.npz -o graded"
    for level in range(1, 6):
        line += f" --shifted fog:{level}=night.npz"
    assert run(line.split()) == 0
    assert run(f"suite compare graded {SHORT} --csv -".split()) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(r["corruption"], r["severity"]) for r in rows if r["shift"] == "covariate"} == {
        ("fog", str(level)) for level in range(1, 6)
    }


def test_a_report_of_two_files(folder):
    assert run(f"report val.npz test.npz --shifted night=night.npz {SHORT} -o r.html".split()) == 0
    page = (folder / "r.html").read_text("utf-8")
    assert "ECE by shift" in page
    assert "over clean and shifted rows" in page
    assert "image" not in page
    assert run(f"report val.npz test.npz {SHORT} -o plain.html".split()) == 0
    assert "nothing is said about shift" in (folder / "plain.html").read_text("utf-8")
    assert sorted(p.suffix for p in folder.iterdir() if p.is_dir()) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{MAKE} -o val.npz", "would replace"),
        (f"{MAKE} --shifted fog:9=night.npz -o x", "a severity is 1 to 5"),
        (f"{MAKE} --shifted night=rain.npz -o x", "night is there twice"),
        (f"{MAKE} --shifted gone=gone.npz -o x", "gone.npz does not exist"),
        (f"{MAKE} --shifted bad=ood.npz -o x", "ood.npz has no labels"),
        (f"{MAKE} --shifted a/b=night.npz -o x", "a split's name must be"),
        ("report mine --ood ood.npz", "one argument is a suite"),
    ],
)
def test_wrong_words_leave_nothing(folder, capsys, line, said):
    before = sorted(p.name for p in folder.iterdir())
    assert run(line.split()) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert sorted(p.name for p in folder.iterdir()) == before


def test_the_papers_table_says_that_there_are_no_severities(folder):
    assert run([*MAKE.split(), "--name", "rides", "-o", "mine"]) == 0
    assert run("reproduce table1 --suites mine -o out --bootstrap 0".split()) == 0
    text = (folder / "out" / "table1.md").read_text("utf-8")
    assert "| rides | unnamed |" in text
    assert "Of rides unnamed there are no severities: the average of clean rows and of each" in text


def test_suites_of_probabilities_say_what_lifted_zeros_did(folder, capsys):
    votes = np.tile([[1.0, 0.0, 0.0], [0.8, 0.2, 0.0], [0.0, 0.2, 0.8]], (20, 1))
    np.savez("votes.npz", proba=votes, y=votes.argmax(axis=1))
    files = "--tune votes.npz --test votes.npz"
    # By hand: a third of (1 / (1 + 2 f) + 2 x 0.8 / (1 + f)) with the floor f = 0.1 / 3.
    said = "read as 0.0333, so that mean confidence on test is 82.86%, where the model said 86.67%"
    assert run(f"suite make {files} --input proba -o lifted".split()) == 0
    assert f"note: probabilities of zero were {said}.\n" in capsys.readouterr().err
    assert run("suite show lifted".split()) == 0
    assert f"data      input proba, zeros {said}\n" in capsys.readouterr().out
    assert run("suite compare lifted --methods ts --bootstrap 0".split()) == 0
    assert f"note: lifted: probabilities of zero were {said}; " in capsys.readouterr().err
    np.savez("whole.npz", proba=np.full((20, 3), 1 / 3), y=np.arange(20) % 3)  # no zeros
    assert run("suite make --tune whole.npz --test whole.npz --input proba -o whole".split()) == 0
    assert "note:" not in capsys.readouterr().err
