"""The tables of `wildcal demo` and `wildcal reproduce table1` have the numbers of version 0.1.

The stored numbers are per cent. `notes` in a file name the methods that changed or are to change,
and why.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import wildcal
from wildcal import suites
from wildcal.cli.main import run

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "tables"
TOLERANCE = 0.01
# Stored method names by their names in the files that the commands write.
METHODS = {
    "Uncal": "identity",
    "TS": "ts",
    "ETS": "ets",
    "IRM": "irm",
    "IROvA": "irova",
    "IROvATS": "irovats",
    "SPLINE": "spline",
    "Energy": "energy",
}
CLEAN, OOD = "test", "textures-test"


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{**row, "method": METHODS.get(row["method"], row["method"])} for row in rows]


def table1(folder):
    """Return (average ECE, noise floor) by suite and method."""
    return {
        (row["suite"], row["method"]): [float(row["value"]), float(row["noise_floor"])]
        for row in read_csv(folder / "table1.csv")
    }


def demo_table(folder):
    """Return the columns of the demo's table by suite and method: see demo.json."""
    found = {}
    for row in read_csv(folder / "results.csv"):
        found.setdefault((row["suite"], row["method"]), []).append(row)
    return {key: _demo_columns(rows) for key, rows in found.items()}


def _demo_columns(rows):
    ece = [[], [], [], [], [], []]
    floor = [[], [], [], [], [], []]
    other = {}
    for row in rows:
        if row["metric"] == "ece":
            severity = 0 if row["split"] == CLEAN else int(row["severity"])
            ece[severity].append(float(row["value"]))
            floor[severity].append(float(row["noise_floor"]))
        elif row["split"] == OOD:
            other[row["metric"]] = float(row["value"])
    by_severity = [np.mean(values) for values in ece]
    average_floor = np.mean([np.mean(values) for values in floor])
    ood = [other["ood_mean_confidence"], other["ood_auroc"]]
    return [100 * v for v in (np.mean(by_severity), average_floor, *by_severity, *ood)]


def compare(found, stored):
    expected = {
        (suite, method): values
        for suite, methods in stored["rows"].items()
        for method, values in methods.items()
    }
    assert found.keys() == expected.keys()
    wrong = {
        key: dict(zip(stored["columns"], zip(found[key], values, strict=True), strict=True))
        for key, values in expected.items()
        if not np.allclose(found[key], values, rtol=0, atol=TOLERANCE)
    }
    assert not wrong


@pytest.fixture
def stored():
    return lambda name: json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def test_demo(tmp_path, capsys, stored):
    assert run(["demo", "-o", str(tmp_path), "--n-bootstrap", "20"]) == 0
    out, err = capsys.readouterr()
    assert err.count("$ wildcal ") == 7
    assert out.count("average ECE") == len(suites.list("cifar10"))
    assert (tmp_path / "proba.npz").exists()
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    found = demo_table(tmp_path)
    for name in suites.list("cifar10"):  # auto is not among the methods of version 0.1
        assert found.pop((name, "auto"))[0] < found[name, "identity"][0]
    compare(found, stored("demo"))


def test_reproduce_table1(tmp_path, stored):
    words = ["reproduce", "table1", "-o", str(tmp_path), "--n-bootstrap", "0", "--format", "csv"]
    assert run(words) == 0
    compare(table1(tmp_path), stored("table1"))


def test_benchmark(stored):
    names = wildcal.suites.list("cifar10")
    metrics = ("ece", "mean_confidence", "ood_auroc")
    loaded = {name: wildcal.suites.load(name) for name in names}
    results = wildcal.run_benchmark(loaded, "paper", metrics=metrics)
    found = {}
    for name in names:
        for method in results.suites[name].methods:
            ece = results.average(name, method.name, "ece")
            values = [ece.value, ece.floor, *ece.conditions]
            for metric in ("ood_mean_confidence", "ood_auroc"):
                values.append(results.estimate(name, method.name, OOD, metric).value)
            found[name, method.name] = [100 * value for value in values]
    compare(found, stored("demo"))
