"""Beta calibration, histogram binning and BBQ against the public code, betacal and netcal."""

import json
from pathlib import Path

import numpy as np
import pytest

from wildcal.calibrators import HistogramBinning
from wildcal.calibrators.bbq import fit_bbq
from wildcal.calibrators.beta import PARAMETERS, apply_beta, fit_beta
from wildcal.core.convert import logits_from_proba, softmax

RECORDED = Path(__file__).parent / "recorded"


def recorded(name):
    """Read what a peer package made of a sample; make_<name>.py beside it says how."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def log_loss(p, target, abc):
    q = apply_beta(p, *abc)
    return -np.mean(np.log(np.where(target, q, 1 - q)))


def from_abm(a, b, m):
    """Return (a, b, c) of the parameters betacal stores."""
    return a, b, b * np.log(1 - m) - a * np.log(m)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_beta_vectors(vectors, reference_data, parameters):
    expected, data = vectors("binary_and_matrix"), reference_data("k2")
    p, target = softmax(data["val_logits"])[:, 1], data["val_labels"] == 1
    abc, _, solution = fit_beta(p, target, None, parameters)
    theirs = expected[f"beta_{parameters}"]
    got = apply_beta(softmax(data["test_logits"])[:10, 1], *abc)
    np.testing.assert_allclose(got, theirs["test_first10"], rtol=0, atol=1e-3)
    assert solution.value <= log_loss(p, target, from_abm(*theirs["map_a_b_m"])) + 1e-12
    if parameters == "abm":
        exact = expected["beta_abm_exact_box_mle"]
        np.testing.assert_allclose(abc, exact["a_b_c"], rtol=1e-7)
        assert solution.value == pytest.approx(exact["nll"], rel=1e-9)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_betacal(parameters):
    """Its logistic regression stops at a tolerance of 1e-4: ours is as close, and never above."""
    case = recorded("betacal")["free"]
    p, target = np.array(case["score"]), np.array(case["correct"]) == 1
    abc, _, solution = fit_beta(p, target, None, parameters)
    theirs = case[parameters]
    np.testing.assert_allclose(apply_beta(np.array(case["grid"]), *abc), theirs["proba"], atol=1e-3)
    published = log_loss(p, target, from_abm(*theirs["a_b_m"]))
    assert published - 1e-5 < solution.value <= published + 1e-12


def test_betacal_at_a_bound():
    """The free maximum has b < 0; betacal refits without b, which is the constrained maximum."""
    case = recorded("betacal")["bound"]
    p, target = np.array(case["score"]), np.array(case["correct"]) == 1
    abc, _, _ = fit_beta(p, target, None)
    assert abc[1] == 0 == case["abm"]["a_b_m"][1]
    got = apply_beta(np.array(case["grid"]), *abc)
    np.testing.assert_allclose(got, case["abm"]["proba"], atol=1e-3)
    # In its families am and ab betacal leaves negative coefficients, and with them a map that
    # falls; we hold on to a, b >= 0.
    assert min(case["am"]["a_b_m"][0], case["ab"]["a_b_m"][1]) < 0
    for parameters in ("am", "ab"):
        assert min(fit_beta(p, target, None, parameters)[0][:2]) >= 0


def test_histogram_vectors(vectors, reference_data):
    """The public code gives an empty bin the value 0; here it has weight 0 and is not used."""
    expected = vectors("binary_and_matrix")["histogram_binning_top15"]
    data = reference_data("k10")
    fitted = HistogramBinning().fit(*data["without_ood"])
    np.testing.assert_allclose(fitted.values_, expected["bin_values"], rtol=0, atol=1e-9)
    got = fitted.confidence(data["test_logits"])[:20]
    np.testing.assert_allclose(got, expected["test_first20"], rtol=0, atol=1e-9)


def test_netcal_histogram():
    """Equal wherever there were rows; an empty bin is its midpoint there, the confidence here."""
    case = recorded("netcal")
    score, correct = np.array(case["score"]), np.array(case["correct"]) == 1
    fitted = HistogramBinning()
    fitted._fit_map(score, correct, None)
    grid = np.array(case["grid"])
    empty = fitted.weights_[fitted._bin(grid)] == 0
    assert 0 < empty.sum() < 10
    got, theirs = fitted._map(grid), np.array(case["histogram"])
    np.testing.assert_allclose(got[~empty], theirs[~empty], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(got[empty], grid[empty])
    midpoints = (fitted._bin(grid[empty]) + 0.5) / 15
    np.testing.assert_allclose(theirs[empty], midpoints, atol=1e-9)


def test_netcal_bbq():
    """Not the same method: netcal weighs its models by BIC or AIC, and has no Beta prior.

    The paper's marginal likelihood prefers fewer bins, so the two part where rows are few. Both
    find the drawn accuracy score**1.8 about equally well. (test_bbq.py has the paper's formula.)
    """
    case = recorded("netcal")
    score, correct = np.array(case["score"]), np.array(case["correct"]) == 1
    edges, values = fit_bbq(score, correct, None)
    grid = np.array(case["grid"])
    ours = values[np.searchsorted(edges, grid)]
    rows_near = np.histogram(score, np.append(grid - 0.005, 1.01))[0]
    error = np.average(np.abs(ours - grid**1.8), weights=rows_near)
    for rule in ("BIC", "AIC"):
        theirs = np.array(case[f"bbq_{rule}"])
        assert np.abs(ours - theirs).max() > 0.1
        assert error < 1.1 * np.average(np.abs(theirs - grid**1.8), weights=rows_near)
    assert error < 0.6 * np.average(np.abs(grid - grid**1.8), weights=rows_near)


def test_the_whole_road_from_logits_agrees_with_the_map():
    case = recorded("netcal")
    score, correct = np.array(case["score"]), np.array(case["correct"]) == 1
    top = score[score > 0.5]
    logits = logits_from_proba(np.column_stack([top, 1 - top]))
    fitted = HistogramBinning().fit(logits, np.where(correct[score > 0.5], 0, 1))
    grid = np.array(case["grid"])
    grid = grid[grid > 0.55]
    got = fitted.confidence(logits_from_proba(np.column_stack([grid, 1 - grid])))
    np.testing.assert_allclose(got, np.array(case["histogram"])[-len(grid) :], atol=1e-9)
