"""Beta calibration, histogram binning and BBQ against the public code, betacal and netcal."""

import json
from pathlib import Path

import numpy as np
import pytest

from wildcal.calibrators.bbq import fit_bbq
from wildcal.calibrators.histogram import HistogramBinning
from wildcal.calibrators.one_vs_rest import BetaCalibration

pytestmark = pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
PARAMETERS = ("abm", "am", "ab")
RECORDED = Path(__file__).parent / "recorded"


def recorded(name):
    """Read what a peer package made of a sample; make_<name>.py beside it says how."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def fit_beta(p, target, parameters="abm"):
    """Return (a, b, c) of class 1, and the log loss."""
    proba = np.column_stack([1 - p, p])
    fitted = BetaCalibration(parameters=parameters).fit(proba, target.astype(int), input="proba")
    return (fitted.a_[1], fitted.b_[1], fitted.c_[1]), fitted.fit_info_.loss_after


def apply_beta(p, a, b, c):
    return 1 / (1 + np.exp(-a * np.log(p) + b * np.log(1 - p) - c))


def sigmoid_of_margin(logits):
    """Return the probability of class 1 of two."""
    return 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))


def log_loss(p, target, abc):
    q = apply_beta(p, *abc)
    return -np.mean(np.log(np.where(target, q, 1 - q)))


def from_abm(a, b, m):
    """Return (a, b, c) of the parameters betacal stores."""
    return a, b, b * np.log(1 - m) - a * np.log(m)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_beta_vectors(vectors, reference_data, parameters):
    expected, data = vectors("binary_and_matrix"), reference_data("k2")
    p, target = sigmoid_of_margin(data["val_logits"]), data["val_labels"] == 1
    abc, loss = fit_beta(p, target, parameters)
    theirs = expected[f"beta_{parameters}"]
    got = apply_beta(sigmoid_of_margin(data["test_logits"][:10]), *abc)
    np.testing.assert_allclose(got, theirs["test_first10"], rtol=0, atol=1e-3)
    assert loss <= log_loss(p, target, from_abm(*theirs["map_a_b_m"])) + 1e-12
    if parameters == "abm":
        exact = expected["beta_abm_exact_box_mle"]
        np.testing.assert_allclose(abc, exact["a_b_c"], rtol=1e-7)
        assert loss == pytest.approx(exact["nll"], rel=1e-9)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_betacal(parameters):
    """Its logistic regression stops at a tolerance of 1e-4: ours is as close, and never above."""
    case = recorded("betacal")["free"]
    p, target = np.array(case["score"]), np.array(case["correct"]) == 1
    abc, loss = fit_beta(p, target, parameters)
    theirs = case[parameters]
    np.testing.assert_allclose(apply_beta(np.array(case["grid"]), *abc), theirs["proba"], atol=1e-3)
    published = log_loss(p, target, from_abm(*theirs["a_b_m"]))
    assert published - 1e-5 < loss <= published + 1e-12


def test_betacal_at_a_bound():
    """The free maximum has b < 0; betacal refits without b, which is the constrained maximum."""
    case = recorded("betacal")["bound"]
    p, target = np.array(case["score"]), np.array(case["correct"]) == 1
    abc, _ = fit_beta(p, target)
    assert abc[1] == 0 == case["abm"]["a_b_m"][1]
    got = apply_beta(np.array(case["grid"]), *abc)
    np.testing.assert_allclose(got, case["abm"]["proba"], atol=1e-3)
    # In its families am and ab betacal leaves negative coefficients, and with them a map that
    # falls; we hold on to a, b >= 0.
    assert min(case["am"]["a_b_m"][0], case["ab"]["a_b_m"][1]) < 0
    for parameters in ("am", "ab"):
        assert min(fit_beta(p, target, parameters)[0][:2]) >= 0


def test_histogram_vectors(vectors, reference_data):
    """The public code gives an empty bin the value 0; here it keeps the confidence."""
    expected = vectors("binary_and_matrix")["histogram_binning_top15"]
    data = reference_data("k10")
    fitted = HistogramBinning().fit(*data["without_ood"])
    values = fitted.values_[14::-1]  # in increasing order of the confidence
    np.testing.assert_allclose(np.maximum(values, 0), expected["bin_values"], rtol=0, atol=1e-9)
    # A smaller confidence than 1 / K would change the predicted class.
    theirs = np.maximum(expected["test_first20"], (1 + 2e-6) / 10)
    got = fitted.confidence(data["test_logits"])[:20]
    np.testing.assert_allclose(got, theirs, rtol=0, atol=1e-9)


def with_confidence(p, n_classes=100):
    """Return probabilities of many classes whose first is p, and the others equal."""
    rest = np.repeat((1 - p)[:, None] / (n_classes - 1), n_classes - 1, axis=1)
    return np.column_stack([p, rest])


def test_netcal_histogram():
    """Equal wherever there were samples; an empty bin is its midpoint there."""
    case = recorded("netcal")
    score, correct = np.array(case["score"]), np.array(case["correct"]) == 1
    kept = score > 0.011  # the first class is then the predicted one
    y = np.where(correct, 0, 1)
    fitted = HistogramBinning().fit(with_confidence(score[kept]), y[kept], input="proba")
    grid, theirs = np.array(case["grid"]), np.array(case["histogram"])
    grid, theirs = grid[grid > 0.07], theirs[grid > 0.07]
    bins = np.ceil(grid * 15 - 1e-9).astype(int) - 1
    empty = fitted.values_[14::-1][bins] < 0
    assert 0 < empty.sum() < 10
    got = fitted.confidence(with_confidence(grid))
    np.testing.assert_allclose(got[~empty], theirs[~empty], rtol=0, atol=1e-9)
    np.testing.assert_allclose(got[empty], grid[empty], atol=1e-9)
    np.testing.assert_allclose(theirs[empty], (bins[empty] + 0.5) / 15, atol=1e-9)


def test_netcal_bbq():
    """Not the same method: netcal weighs its models by BIC or AIC, and has no Beta prior.

    The paper's marginal likelihood prefers fewer bins, so the two part where rows are few. Both
    find the drawn accuracy score**1.8 about equally well.
    """
    case = recorded("netcal")
    score, correct = np.array(case["score"]), np.array(case["correct"]) == 1
    edges, values = fit_bbq(score, correct, np.ones(len(score)))
    grid = np.array(case["grid"])
    ours = values[np.searchsorted(edges, grid)]
    rows_near = np.histogram(score, np.append(grid - 0.005, 1.01))[0]
    error = np.average(np.abs(ours - grid**1.8), weights=rows_near)
    for rule in ("BIC", "AIC"):
        theirs = np.array(case[f"bbq_{rule}"])
        assert np.abs(ours - theirs).max() > 0.1
        assert error < 1.1 * np.average(np.abs(theirs - grid**1.8), weights=rows_near)
    assert error < 0.6 * np.average(np.abs(grid - grid**1.8), weights=rows_near)
