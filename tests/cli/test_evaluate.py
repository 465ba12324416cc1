"""`wildcal evaluate`, `compare`, `compare-models` and `benchmark`."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from wildcal.cli.main import run
from wildcal.testing import make_suite


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Give val.csv, test.csv and sharp.csv: logits of three classes, labels, countries."""
    rng = np.random.default_rng(0)
    for name, n in (("val", 800), ("test", 1500)):
        z = rng.normal(size=(n, 3)) * 2
        p = np.exp(0.6 * z) / np.exp(0.6 * z).sum(axis=1, keepdims=True)
        y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        frame = pd.DataFrame(z, columns=["logit_cat", "logit_dog", "logit_bee"])
        frame["label"] = np.array(["cat", "dog", "bee"])[y]
        frame["w"] = np.arange(n) % 4
        frame["country"] = np.where(np.arange(n) % 3, "DE", "IN")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    frame[["logit_cat", "logit_dog", "logit_bee"]] = 2 * z
    frame.to_csv(tmp_path / "sharp.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_gates(folder, capsys):
    words = ["evaluate", "test.csv", "--group-column", "country"]
    assert run([*words, "--fail-if", "ece > 0.9"]) == 0
    capsys.readouterr()
    gates = ["--fail-if", "ece > 0.01", "--fail-if", "worst_group.accuracy < 0.99"]
    assert run([*words, *gates]) == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if "failed" in line]
    assert lines[0].startswith("failed: ece is 0.")
    assert "in group" in lines[1]
    assert run(["evaluate", "test.csv", "--fail-if", "ece > 5"]) == 1
    assert "Try 0.05 for 5 %" in capsys.readouterr().err


def test_json_has_the_documented_schema(folder, capsys):
    gates = ["--fail-if", "ece > 0.01"]
    words = ["evaluate", "test.csv", "--json", "--group-column", "country", *gates]
    assert run(words) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["format_version"]) == ("wildcal evaluation", 1)
    assert set(found["groups"]) == {"DE", "IN"}
    assert found["worst_group"] in found["groups"]
    assert set(found["metrics"]["ece"]) == {"value", "low", "high", "noise_floor", "verdict"}
    assert found["violations"][0].endswith(": ece > 0.01")


def test_calibrator_and_tables(folder, capsys):
    assert run(["fit", "val.csv", "--method", "ts", "-o", "ts.json", "-q"]) == 0
    assert run(["evaluate", "test.csv", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["metrics"]
    words = ["evaluate", "test.csv", "--calibrator", "ts.json"]
    assert run([*words, "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["metrics"]
    assert after["nll"]["value"] < before["nll"]["value"]
    assert run([*words, "--metrics", "ece,nll", "--group-column", "country"]) == 0
    out = capsys.readouterr().out
    assert "By group" in out
    assert f"{100 * after['ece']['value']:.2f}" in out
    assert run([*words, "--metrics", "nll", "--markdown"]) == 0
    assert "| NLL |" in capsys.readouterr().out
    assert run([*words, "--csv", "found.csv"]) == 0
    with (folder / "found.csv").open() as file:
        rows = {row["metric"]: row for row in csv.DictReader(file)}
    assert float(rows["nll"]["value"]) == after["nll"]["value"]


def test_many_samples_have_no_intervals_by_default(folder, capsys, monkeypatch):
    monkeypatch.setattr("wildcal.metrics.bootstrap.MAX_SAMPLES", 1000)
    words = ["evaluate", "test.csv", "--metrics", "nll"]
    assert run(words) == 0
    assert "interval" not in capsys.readouterr().out
    assert run([*words, "--n-bootstrap", "20"]) == 0
    assert "bootstrap with 20 replicates" in capsys.readouterr().out


def test_groups_and_ood_samples(folder, capsys):
    z = np.random.default_rng(1).normal(size=(200, 3)) / 2
    pd.DataFrame(z, columns=["logit_cat", "logit_dog", "logit_bee"]).to_csv("ood.csv", index=False)
    words = ["evaluate", "test.csv", "--ood", "ood.csv", "--group-column", "country", "--json"]
    assert run([*words, "--n-bootstrap", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["ood_auroc"]["value"] > 0.5
    assert sum(group["n_samples"] for group in found["groups"].values()) == 1500


def test_right_or_wrong(folder, capsys):
    rng = np.random.default_rng(0)
    confidence = rng.integers(50, 100, 400)
    right = rng.random(400) * 100 < confidence - 20
    frame = pd.DataFrame({"confidence": confidence, "right": right.astype(int)})
    frame.to_csv("verbal.csv", index=False)
    words = ["evaluate", "verbal.csv", "--input", "confidence", "--correct-column", "right"]
    assert run([*words, "--score-columns", "confidence", "--percent", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]
    assert found["accuracy"]["value"] == pytest.approx(right.mean())
    assert found["mean_confidence"]["value"] == pytest.approx(confidence.mean() / 100)


def test_the_measured_columns_are_named_beside_those_of_predict(folder, capsys):
    assert run("fit val.csv --method ts -o ts.json -q".split()) == 0
    assert run("predict ts.json test.csv -o out.csv -q".split()) == 0
    for line, n_lines in (("out.csv", 1), ("out.csv --calibrator ts.json", 0), ("test.csv", 0)):
        assert run(["evaluate", *line.split(), "--metrics", "ece", "--n-bootstrap", "0"]) == 0
        said = capsys.readouterr().err
        assert said.count("\n") == said.count("--calibrator FILE measures") == n_lines


def test_compare(folder, capsys):
    words = ["compare", "val.csv", "test.csv", "--methods", "identity,ts,vector"]
    assert run([*words, "--json", "--n-bootstrap", "20"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["methods"])[-1] == "identity"
    assert found["sort"] == "nll"
    assert run([*words, "--sort", "ece", "--n-bootstrap", "20"]) == 0
    assert "Sorted by ECE." in capsys.readouterr().out
    assert run([*words, "--sort", "eec"]) == 1
    assert "Did you mean 'ece'" in capsys.readouterr().err


def test_compare_models(folder, capsys):
    words = ["compare-models", "test.csv", "sharp.csv", "--metrics", "accuracy,nll"]
    assert run([*words, "--margin", "0.01", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["differences"]["sharp"]
    assert found["nll"]["verdict"] == "worse"
    assert found["accuracy"]["verdict"] == "equivalent"
    assert run(words) == 0
    assert "sharp - test" in capsys.readouterr().out
    assert run(["compare-models", "test.csv", "val.csv"]) == 1
    assert "same samples" in capsys.readouterr().err
    values = []
    for line in ("compare-models test.csv sharp.csv", "evaluate sharp.csv"):
        assert run([*line.split(), "--metrics", "nll", "--weight-column", "w", "--csv", "-"]) == 0
        values.append(capsys.readouterr().out.splitlines()[-1].split(",")[2])
    assert values[0] == values[1]
    other = pd.read_csv("sharp.csv")
    other.assign(w=other["w"] + 1).to_csv("other.csv", index=False)
    assert run(["compare-models", "test.csv", "other.csv", "--weight-column", "w"]) == 1
    assert "same weights" in capsys.readouterr().err


def test_classes_are_those_of_the_first_file(folder, capsys):
    other = pd.read_csv("test.csv")[["logit_bee", "logit_cat", "logit_dog", "label"]]
    other.to_csv("other.csv", index=False)
    found = []
    for test in ("test.csv", "other.csv"):
        assert run(["compare", "val.csv", test, "--methods", "vector", "--csv", "-"]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert run(["compare-models", "test.csv", "other.csv"]) == 0
    other.rename(columns={"logit_bee": "logit_ant"}).to_csv("other.csv", index=False)
    for words in (["compare", "val.csv"], ["compare-models", "test.csv"]):
        assert run([*words, "other.csv"]) == 1
        assert "must be those of the classes cat, dog, bee" in capsys.readouterr().err


def test_benchmark(tmp_path, capsys, monkeypatch):
    from wildcal.io.suite_writer import SuiteWriter

    monkeypatch.chdir(tmp_path)
    drawn = make_suite(500, 3)
    writer = SuiteWriter(tmp_path / "tiny", class_names=["a", "b", "c"])
    z, y = drawn.calibration
    writer.add("validation", z[y >= 0], y[y >= 0], role="calibration")
    writer.add("test", *drawn.test, role="test")
    writer.add("night", *drawn.shifted, role="test", domain="night")
    writer.finish()
    words = ["benchmark", "tiny", "--methods", "identity,ts@source", "--n-bootstrap", "20"]
    assert run([*words, "--csv", "all.csv"]) == 0
    out = capsys.readouterr().out
    assert "night" in out
    assert "ts@source" in out
    with (tmp_path / "all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["split"] for row in rows} == {"test", "night"}
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "wildcal benchmark"
    assert run(["benchmark", "nowhere"]) == 1
    assert "installed suite" in capsys.readouterr().err
