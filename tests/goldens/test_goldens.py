"""Fitted numbers, probabilities, objectives and metrics of version 0.1; see README.md."""

import json

import pytest
import runner

METHODS = runner.index()["methods"]
GOLDENS = runner.index()["goldens"]
METRICS = runner.index()["metrics"]


def of_kind(kind):
    chosen = [golden for golden in GOLDENS if kind in METHODS[golden["method"]]["kinds"]]
    return pytest.mark.parametrize("golden", chosen, ids=lambda golden: golden["id"])


@of_kind("formula")
def test_stored_numbers_give_stored_probabilities(golden):
    runner.check_formula(golden)


@of_kind("fit")
def test_fit_reaches_stored_objective_and_probabilities(golden):
    runner.check_fit(golden)


@pytest.mark.parametrize("golden", METRICS, ids=lambda golden: golden["id"])
def test_metric_has_stored_value(golden):
    runner.check_metric(golden)


def test_every_recorded_name_has_a_new_name():
    names = json.loads((runner.FOLDER / "names.json").read_text("utf-8"))
    for golden in GOLDENS:
        method = golden["method"]
        assert method in names["methods"]
        assert set(golden["fitted"]) == set(names["fitted"].get(method, ()))
        assert set(golden["options"]) <= set(names["options"].get(method, ()))
    assert {golden["metric"] for golden in METRICS} == set(names["metrics"])
