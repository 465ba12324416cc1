"""`wildcal accuracy`."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wildcal.accuracy import ATC, get_estimator
from wildcal.cli.main import run
from wildcal.testing import make_suite


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Labelled samples of three sites, and unlabelled ones, with named columns."""
    monkeypatch.chdir(tmp_path)
    suite = make_suite(1500, 3, seed=0)
    names = ["logit_cat", "logit_dog", "logit_fish"]
    known = suite.calibration.y >= 0
    first, second = suite.calibration.logits[known], suite.shifted.logits
    frame = pd.DataFrame(np.concatenate([first, second]), columns=names)
    y = np.concatenate([suite.calibration.y[known], suite.shifted.y])
    frame["label"] = np.array(["cat", "dog", "fish"])[y]
    frame["site"] = ["A"] * len(first) + ["B"] * 500 + ["C"] * (len(second) - 500)
    frame.to_csv("sites.csv", index=False)
    frame[frame.site == "A"].drop(columns="site").to_csv("val.csv", index=False)
    new = make_suite(1000, 3, seed=1).shifted.logits
    pd.DataFrame(new, columns=names).to_csv("today.csv", index=False)
    return {"X": first, "y": y[: len(first)], "window": new}


def test_fit_and_estimate(folder, capsys):
    assert run(["accuracy", "fit", "val.csv", "-o", "e.json"]) == 0
    assert "source samples" in capsys.readouterr().err
    assert run(["accuracy", "estimate", "e.json", "today.csv", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    expected = ATC().fit(folder["X"], folder["y"]).estimate(folder["window"])
    assert found["value"] == pytest.approx(expected.value, abs=1e-6)
    assert found["low"] == pytest.approx(expected.low, abs=1e-6)
    assert (found["first"], found["last"], found["n_samples"]) == (0, 999, 1000)
    assert run(["accuracy", "estimate", "e.json", "today.csv"]) == 0
    assert capsys.readouterr().out.strip() == (
        f"Estimated accuracy: {expected} (1,000 samples, atc-ne)"
    )


def test_domains_are_measured(folder, capsys):
    line = "accuracy fit sites.csv --domain-column site --source-domain A -o e.json"
    assert run(line.split()) == 0
    assert "Mean error on 2 other domains" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["atc-ne", "cot"])
def test_windows(name, folder, capsys):
    assert run(["accuracy", "fit", "val.csv", "--estimator", name, "-o", "e.json"]) == 0
    line = "accuracy estimate e.json today.csv --window 400 --csv out.csv"
    assert run(line.split()) == 0
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["first"], r["last"]) for r in rows] == [("0", "399"), ("400", "799"), ("800", "999")]
    fitted = get_estimator(name).fit(folder["X"], folder["y"])
    expected = fitted.estimate(folder["window"][400:800])
    assert float(rows[1]["value"]) == pytest.approx(expected.value, abs=1e-4)
    capsys.readouterr()
    assert run("accuracy estimate e.json today.csv --window 400".split()) == 0
    assert "400-799" in capsys.readouterr().out
    assert run("accuracy estimate e.json today.csv --json --csv both.csv".split()) == 0
    assert json.loads(capsys.readouterr().out)[0]["n_samples"] == 1000
    assert Path("both.csv").read_text().startswith("first,last,value")


def test_a_second_network(folder, capsys):
    assert run(["accuracy", "fit", "val.csv", "--estimator", "gde", "-o", "e.json"]) == 0
    line = "accuracy estimate e.json today.csv --json"
    assert run(line.split()) == 1
    assert "--second-logits must be given to GDE" in capsys.readouterr().err
    assert run([*line.split(), "--second-logits", "today.csv"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["value"] == 1.0


def test_benchmark(capsys):
    line = "accuracy benchmark cifar10-resnet20 --estimators ac,atc-ne --setting whole"
    assert run([*line.split(), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["estimator"] for row in rows] == ["atc-ne", "ac"]
    assert run(line.split()) == 0
    assert "mean error" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("accuracy fit val.csv --estimator atc -o e.json", 1, "Try one of ac, doc, atc-ne"),
        ("accuracy fit today.csv -o e.json", 1, "label"),
        ("accuracy fit val.csv -o e.txt", 1, "must end in .json"),
        ("accuracy compare x", 2, "`accuracy compare` was renamed `accuracy benchmark`"),
        ("accuracy fit val.csv --method ac -o e.json", 2, "--method"),
        ("accuracy benchmark pacs-resnet18", 1, "at least two kinds"),
    ],
)
def test_errors(line, code, text, folder, capsys):
    assert run(line.split()) == code
    said = capsys.readouterr().err
    assert text in said
    assert len(said.strip().splitlines()) == 1


def test_a_calibrator_is_no_estimator(folder, capsys):
    assert run(["fit", "val.csv", "-o", "c.json", "-q"]) == 0
    capsys.readouterr()
    assert run(["accuracy", "estimate", "c.json", "today.csv"]) == 1
    assert "must be a file of `accuracy fit`" in capsys.readouterr().err


def test_an_estimator_is_no_calibrator(folder, capsys):
    assert run(["accuracy", "fit", "val.csv", "-o", "e.json", "-q"]) == 0
    for line in ("predict e.json val.csv -o x.csv", "evaluate val.csv --calibrator e.json"):
        assert run(line.split()) == 1
        assert "must be a file of `fit`, got e.json, an estimator." in capsys.readouterr().err
    assert run(["show", "e.json"]) == 0
    assert "source samples" in capsys.readouterr().out
