"""`wildcal suite`."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy

from wildcal import Suite, read_samples, suites
from wildcal.cli.main import run


def listed(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


def test_list(capsys):
    assert run("suite list --json".split()) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == list(suites.list())
    assert run("suite list".split()) == 0
    assert "pacs-resnet18" in capsys.readouterr().out


def test_show(capsys):
    assert run("suite show cifar10-resnet20 --verify --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in found["summary"]}
    assert rows["test, severity 5"]["splits"] == 19
    assert rows["test"]["accuracy"] == pytest.approx(0.9019)
    assert rows["svhn-test"]["accuracy"] is None
    assert found["verified"]
    assert run("suite show cifar10-resnet20 --splits".split()) == 0
    shown = capsys.readouterr().out
    assert "fog-5" in shown
    assert "n_neighbors 50" in shown


def test_create_and_export(folder, capsys):
    line = (
        "suite create --calibration val.npz --test test.npz --shifted night=test.npz --shifted"
        " fog:3=test.npz --ood dice=ood.npz --test-ood cards=strange.npz --model mlp -o mine"
    )
    for end in ("", ".npz"):
        assert run((line + end).split()) == 0
        suite = Suite.open(f"mine{end}")
        suite.verify()
        assert suite.complete
        assert suite.model == {"name": "mlp"}
        found = [(s.name, s.role, s.domain, s.severity) for s in suite.splits]
        assert found == [
            ("calibration", "calibration", "source", None),
            ("test", "test", "source", None),
            ("night", "test", "night", None),
            ("fog-3", "test", "fog-3", 3),
            ("dice-calibration", "calibration", None, None),
            ("cards-test", "test", None, None),
        ]
    capsys.readouterr()
    assert run(line.split()) == 1
    assert "--output must not exist, got mine." in capsys.readouterr().err
    assert run("suite export mine fog-3 -o fog.npz".split()) == 0
    with np.load("fog.npz") as arrays, np.load("test.npz") as given:
        np.testing.assert_allclose(arrays["logits"], given["logits"], rtol=1e-6)
        np.testing.assert_array_equal(arrays["y"], given["y"])
    assert run("suite export mine -o packed.npz --dtype float16 --step 0.25".split()) == 0
    packed = Suite.open("packed.npz")
    assert packed.split("test").info.arrays["logits"] == "float16"
    assert packed.data["logits_step"] == 0.25
    assert not [name for name in listed() if name.startswith("tmp")]


def test_a_failed_create_leaves_nothing(folder, capsys):
    line = "suite create --calibration val.npz --test ood.npz -o mine"
    before = listed()
    assert run(line.split()) == 1
    assert "label_column" in capsys.readouterr().err.replace("-", "_")
    np.savez("proba.npz", proba=np.full((9, 3), 1 / 3), y=np.arange(9) % 3)
    assert run("suite create --calibration val.npz --test proba.npz -o mine".split()) == 1
    assert "no column is named logit_*" in capsys.readouterr().err
    Path("proba.npz").unlink()
    assert listed() == before


def test_confidences_make_no_suite(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.csv").write_text("confidence,correct\n0.9,1\n0.8,0\n0.7,1\n")
    for line in ("report a.csv b.csv", "suite create --calibration a.csv --test b.csv -o mine"):
        assert run([*line.split(), "--input", "confidence"]) == 1
        assert "Try `wildcal evaluate` or `wildcal compare`." in capsys.readouterr().err
    assert listed() == ["a.csv", "b.csv"]


@pytest.fixture
def probabilities(folder):
    """Give val.csv and test.csv, which has groups."""
    for name in ("val", "test"):
        samples = read_samples(f"{name}.npz")
        frame = pd.DataFrame(scipy.special.softmax(samples.X, axis=1)).add_prefix("proba_")
        frame["label"] = samples.y
        if name == "test":
            frame["country"] = np.where(samples.y < 5, "DE", "IN")
        frame.to_csv(f"{name}.csv", index=False)


def test_reports_of_probabilities_leave_the_energy_out(probabilities, capsys):
    line = "report val.csv test.csv --group-column country --methods ts,energy --n-bootstrap 0"
    assert run([*line.split(), "--csv", "-"]) == 0
    assert ",energy," not in capsys.readouterr().out
    page = Path("report.html").read_text("utf-8")
    assert "energy failed: input must be" in page
    assert "<h2>Groups</h2>" in page
    assert run("report val.csv test.csv --n-bootstrap 0".split()) == 0
    assert "energy failed" not in Path("report.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["report pacs-resnet18", "demo"])
def test_missing_packages_are_named_before_the_work(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run(command.split()) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert 'Install it with: pip install "wildcal[report]"' in shown.err
    assert listed() == []


@pytest.mark.parametrize("name", ["test", "fog:strong", "fog:6", "fog:"])
def test_a_wrong_name_of_a_split(folder, capsys, name):
    line = f"suite create --calibration val.npz --test test.npz --shifted {name}=test.npz -o mine"
    assert run(line.split()) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: --shifted must have different names, with a severity of 1 to 5")
    assert f"got '{name}'." in said
