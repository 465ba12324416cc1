"""`wildcal accuracy`: the estimates of the library, from files."""

import csv
import io
import json

import numpy as np
import pytest

from wildcal import accuracy
from wildcal._old.core.convert import proba_floor, softmax
from wildcal._old.testing import make_suite
from wildcal.cli.main import run

SUITE = make_suite(seed=2, n_tuning=300, n_test=200, n_ood_tuning=0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("val.npz", logits=SUITE.tuning.logits, y=SUITE.tuning.y)
    np.savez("today.npz", logits=SUITE.shifted.logits, y=SUITE.shifted.y)
    return tmp_path


def test_fit_and_estimate(folder, capsys):
    assert run("accuracy fit val.npz -o e.json".split()) == 0
    expected = accuracy.make_estimator("atc-ne").fit(*SUITE.tuning)
    capsys.readouterr()
    assert run("accuracy estimate e.json today.npz".split()) == 0
    found = expected.estimate(SUITE.shifted.logits)
    assert capsys.readouterr().out == f"{found} (200 rows, atc-ne)\n"
    assert run("accuracy estimate e.json today.npz --json".split()) == 0
    assert json.loads(capsys.readouterr().out) == [{"rows": "0-199", **found.to_dict()}]


def test_an_estimator_remembers_what_its_rows_were(folder, capsys):
    """Fitted on probabilities, it reads probabilities, with the same floor for zeros."""
    proba = softmax(SUITE.tuning.logits).round(2)
    proba /= proba.sum(axis=1, keepdims=True)
    np.savez("p.npz", proba=proba, y=SUITE.tuning.y)
    assert run("accuracy fit p.npz --input proba --method ac -o e.json".split()) == 0
    _, about = accuracy.load_with_about("e.json")
    assert (about.kind, about.floor) == ("proba", pytest.approx(proba_floor(proba)))
    np.savez("few.npz", proba=proba[:3])  # too few to tell a floor of their own
    capsys.readouterr()
    assert run("accuracy estimate e.json few.npz".split()) == 0
    assert "3 rows, ac" in capsys.readouterr().out


def test_windows(folder, capsys):
    assert run("accuracy fit val.npz --method ac -o e.json".split()) == 0
    capsys.readouterr()
    assert run("accuracy estimate e.json today.npz --window 80 --csv -".split()) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [r["rows"] for r in rows] == ["0-79", "80-159", "160-199"]
    part = accuracy.load("e.json").estimate(SUITE.shifted.logits[80:160])
    assert float(rows[1]["value"]) == part.value
    assert run("accuracy estimate e.json today.npz --window 80".split()) == 0
    assert "below clean" in capsys.readouterr().out


def test_a_window_that_is_too_small_is_warned_of(folder, capsys):
    assert run("accuracy fit val.npz --method cot -o e.json".split()) == 0
    np.savez("one.npz", logits=SUITE.shifted.logits[:1])
    capsys.readouterr()
    assert run("accuracy estimate e.json one.npz --quiet".split()) == 0
    said = capsys.readouterr()
    assert said.out.endswith("(1 row, cot)\n")
    assert "with fewer than 512 rows others do better" in said.err
    assert "a window of 1 row." in said.err
    assert run("accuracy fit val.npz --method ac -o e.json".split()) == 0
    capsys.readouterr()
    assert run("accuracy estimate e.json one.npz --quiet".split()) == 0
    assert capsys.readouterr().err == ""


def test_windows_of_another_class_mix_are_named_in_one_line(folder, capsys):
    assert run("accuracy fit val.npz --method cot -o e.json".split()) == 0
    z = SUITE.clean.logits
    of_one = np.resize(z[z.argmax(axis=1) == 0], (40, z.shape[1]))
    np.savez("mixed.npz", logits=np.concatenate([of_one, of_one, z[:40], of_one]))
    capsys.readouterr()
    assert run("accuracy estimate e.json mixed.npz --window 40 --csv -".split()) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "class mix" in line]
    assert len(said) == 1
    assert said[0].startswith("warning: 3 of 4 windows, rows 0-39, 40-79, 120-159: cot: the pred")


def test_compare_on_a_suite(capsys):
    line = "accuracy compare cifar10-resnet20 --methods ac,doc --setting whole --csv -"
    assert run(line.split()) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {r["estimator"] for r in rows} == {"ac", "doc"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("accuracy fit val.npz --method atcne -o x.json", "did you mean 'atc-ne'?"),
        ("accuracy fit val.npz -o val.npz", "would replace"),
        ("accuracy compare cifar10-resnet20 --methods magic", "there is no estimator 'magic'"),
        ("accuracy estmate e.json", "Did you mean 'estimate'?"),
    ],
)
def test_wrong_words(folder, capsys, line, said):
    assert run(line.split()) != 0
    assert said in capsys.readouterr().err
    assert not (folder / "x.json").exists()
