"""Rows as they are declared: probabilities, names, arrays of other names, streams, notes."""

import io
import json
import sys

import numpy as np
import pytest

from wildcal import load
from wildcal.cli.main import run
from wildcal._old.io import load_with_about
from wildcal._old.testing import make_suite

SUITE = make_suite(seed=3, n_tuning=300, n_test=200, n_ood_tuning=0)


def rows_of(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 1, n).round(4)
    return p, rng.random(n) < p**1.5


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("trainer.npz", predictions=SUITE.tuning.logits, label_ids=SUITE.tuning.y)
    np.savez("val.npz", logits=SUITE.tuning.logits, y=SUITE.tuning.y)
    np.savez("test.npz", logits=SUITE.clean.logits, y=SUITE.clean.y)
    for name, seed in (("mail", 0), ("more", 1)):
        lines = [f"{p},{'spam' if y else 'ham'}" for p, y in zip(*rows_of(200, seed), strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["score,kind", *lines]) + "\n")
    return tmp_path


MAIL = "--columns score --label-column kind --pos-label spam"


def test_arrays_of_other_names_and_notes(folder, capsys):
    line = "fit trainer.npz --arrays logits=predictions,y=label_ids --method ts -o a.json"
    assert run([*line.split(), "--note", "network=mlp", "--note", "date=May"]) == 0
    assert run("fit val.npz --method ts -o b.json".split()) == 0
    assert load("a.json").temperature_ == load("b.json").temperature_
    capsys.readouterr()
    assert run("inspect a.json".split()) == 0
    assert capsys.readouterr().out.endswith("network: mlp\ndate: May\n")
    assert run(["fit", "val.npz", "--note", "network", "-o", "c.json"]) == 2


def test_auto_is_the_default_and_says_what_it_mixed(folder, capsys):
    assert run("fit val.npz -o a.json".split()) == 0
    assert load("a.json").name == "auto"
    assert "Mixture of " in capsys.readouterr().err
    assert run("fit val.npz -q -o a.json".split()) == 0
    assert capsys.readouterr() == ("", "")


def test_a_file_keeps_kind_classes_and_floor(folder, capsys):
    assert run(f"fit mail.csv --input proba {MAIL} --method ts -o b.json".split()) == 0
    _, about = load_with_about("b.json")
    assert (about.kind, about.classes.names) == ("proba", ("ham", "spam"))
    assert about.floor > 0
    capsys.readouterr()
    # What was declared at the fit need not be said again.
    assert run(f"apply b.json more.csv {MAIL} -o out.csv".split()) == 0
    head = (folder / "out.csv").read_text().splitlines()[0]
    assert head == "proba_ham,proba_spam,confidence,temperature,pred,y"
    p, _ = rows_of(200, 1)
    found = np.loadtxt("out.csv", delimiter=",", skiprows=1)[:, :2]
    inside, given = (p > 0.001) & (p < 0.999), np.column_stack([1 - p, p])
    np.testing.assert_allclose(
        found[inside], load("b.json").predict_proba(given[inside]), atol=1e-6
    )
    assert run(f"evaluate more.csv {MAIL} --with b.json --bootstrap 0 --json".split()) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["as given", "b"]


def test_evaluate_reads_what_apply_wrote(folder, capsys):
    assert run("fit val.npz --method ts -o ts.json".split()) == 0
    for ending in ("npz", "csv"):
        assert run(f"apply ts.json test.npz -o out.{ending}".split()) == 0
        capsys.readouterr()
        assert run("evaluate test.npz --with ts.json --bootstrap 0 --json".split()) == 0
        fitted = json.loads(capsys.readouterr().out)["ts"]["metrics"]
        assert run(f"evaluate out.{ending} --input proba --bootstrap 0 --json -q".split()) == 0
        given = json.loads(capsys.readouterr().out)["as given"]["metrics"]
        for name in ("ece", "nll", "brier", "accuracy"):
            assert given[name]["value"] == pytest.approx(fitted[name]["value"], abs=1e-6)


def test_the_class_that_was_predicted_is_read_with_the_probabilities(folder, capsys):
    """Of equal probabilities the first is not the predicted one: `pred` tells."""
    proba, pred, y = np.full((4, 2), 0.5), np.array([1, 1, 0, 1]), np.array([1, 1, 0, 0])
    np.savez("ties.npz", proba=proba, pred=pred, y=y)
    rows = "\n".join(f"0.5,0.5,{a},{b}" for a, b in zip(pred, y, strict=True))
    (folder / "ties.csv").write_text(f"proba_a,proba_b,pred,y\n{rows}\n")
    for name in ("ties.npz", "ties.csv"):
        assert run(f"evaluate {name} --input proba --bootstrap 0 --json".split()) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["as given"]["metrics"]["accuracy"]["value"] == 0.75
        assert f"note: {name}: pred was read as predicted class.\n" in err
        assert "left out" not in err


def test_binary_metrics_where_there_are_two_classes(folder, capsys):
    assert run(f"evaluate mail.csv --input proba {MAIL} --bootstrap 50 --json -q".split()) == 0
    found = json.loads(capsys.readouterr().out)["as given"]["metrics"]
    slope = found["calibration_slope"]
    assert slope["low"] < slope["value"] < slope["high"]
    assert found["calibration_intercept"]["high"] < 0  # spam is rarer than it says
    assert {"positive_ece", "spiegelhalter_z"} <= set(found)
    assert run("evaluate test.npz --bootstrap 0 --json".split()) == 0
    assert "positive_ece" not in json.loads(capsys.readouterr().out)["uncalibrated"]["metrics"]


def test_from_a_pipe_to_a_pipe(folder, capsysbinary, monkeypatch):
    assert run(f"fit mail.csv --input proba {MAIL} --method ts -o b.json".split()) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"score\n0.25\n0.5\n")))
    capsysbinary.readouterr()
    assert run("apply b.json - --columns score -o - -q".split()) == 0
    out, err = capsysbinary.readouterr()
    assert err == b""
    assert out.decode().splitlines()[0].startswith("proba_ham,proba_spam")
    assert len(out.decode().splitlines()) == 3


def test_csv_is_a_file_and_the_table_stays(folder, capsys):
    assert run("evaluate test.npz --bootstrap 0 --csv numbers.csv".split()) == 0
    assert "accuracy" in capsys.readouterr().out
    text = (folder / "numbers.csv").read_text()
    assert text.startswith("method,preserves_accuracy,metric,value,low,high\n")
    assert run("evaluate test.npz --bootstrap 0 --csv -".split()) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("apply ts.json test.npz -o test.npz", "would replace a file that is read"),
        ("fit val.npz --input probs -o x.json", "'probs' is not one of"),
        ("fit trainer.npz -o x.json", "--arrays"),
        ("fit mail.csv --label-column kind --columns score -o x.json", "--input score"),
        ("fit val.npz --arrays logits -o x.json", "ROLE=NAME"),
        ("fit val.npz --methd ts -o x.json", "--method"),
        ("fit val.npz --method enrgy -o x.json", "did you mean 'energy'"),
        ("evalute test.npz", "Did you mean 'evaluate'?"),
        ("suite shw x", "Did you mean 'show'?"),
        ("suite show cifar10-resnet2", "Did you mean cifar10-resnet20?"),
        ("apply ts.json test.npz --window many -o x.npz", "a number of rows, or all"),
        ("evaluate test.npz --with ts.json --with p.json", "fitted on other things"),
    ],
)
def test_what_is_wrong_is_named_in_the_words_of_the_command(folder, capsys, line, said):
    assert run("fit val.npz --method ts -o ts.json".split()) == 0
    assert run(f"fit mail.csv --input proba {MAIL} --method ts -o p.json".split()) == 0
    capsys.readouterr()
    before = (folder / "test.npz").read_bytes()
    assert run(line.split()) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert not (folder / "x.json").exists()
    assert (folder / "test.npz").read_bytes() == before
