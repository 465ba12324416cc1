"""Scores of other units, ties, absent classes and label noise."""

import warnings

import numpy as np
import pytest

from wildcal import AutoCalibrator, BetaCalibration, SplineCalibration, get_calibrator
from wildcal.core.exceptions import CalibrationWarning


def draw(n, n_classes, *, scale=3.0, seed=0):
    """Return logits and labels drawn from softmax(logits / 2)."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, n_classes))
    return logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)


def nll(calibrator, logits, y):
    return -np.log(calibrator.predict_proba(logits)[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize("unit", [1e-4, 0.01, 100.0, 1000.0])
def test_auto_does_not_depend_on_the_unit_of_the_logits(unit):
    (logits, y), test = draw(2000, 10), draw(2000, 10, seed=1)
    expected = nll(AutoCalibrator().fit(logits, y), *test)
    found = nll(AutoCalibrator().fit(unit * logits, y), unit * test[0], test[1])
    assert found < expected + 0.005


@pytest.mark.parametrize(("n", "n_classes", "scale"), [(10_000, 3, 0.8), (3000, 2, 2.0)])
def test_auto_stays_confident_beyond_the_calibration_samples(n, n_classes, scale):
    rng = np.random.default_rng(0)
    logits = scale * rng.normal(size=(n, n_classes))
    y = (logits / 0.7 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    noise = rng.random(n) < 0.3
    y[noise] = rng.integers(0, n_classes, noise.sum())
    calibrator = AutoCalibrator().fit(logits, y)
    assert calibrator.weights_[2] > 0.5
    clear = np.zeros((50, n_classes))
    clear[:, 0] = np.linspace(0, 30, 50)
    confidence = calibrator.predict_proba(clear)[:, 0]
    assert (np.maximum.accumulate(confidence) - confidence).max() < 0.2


@pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
@pytest.mark.parametrize("n_trees", [2, 5, 10])
def test_spline_of_a_forest_has_the_accuracy_of_each_confidence(n_trees):
    rng = np.random.default_rng(0)
    p = rng.beta(3, 2, 4000)
    y = (rng.random(4000) < p).astype(int)
    votes = rng.binomial(n_trees, p) / n_trees
    proba = np.column_stack([1 - votes, votes])
    calibrator = SplineCalibration().fit(proba, y, input="proba")
    confidence, correct = calibrator.confidence(proba), calibrator.predict(proba) == y
    for each in np.unique(proba.max(axis=1)):
        tied = proba.max(axis=1) == each
        accuracy = max(correct[tied].mean(), 0.5)  # the predicted class is kept
        assert confidence[tied].mean() == pytest.approx(accuracy, abs=0.04)


def test_spline_of_saturated_confidences():
    rng = np.random.default_rng(0)
    score = rng.beta(5, 1, 4000)
    correct = rng.random(4000) < score**2
    score[score > 0.8] = 1.0
    calibrator = SplineCalibration().fit(score, correct, input="confidence")
    expected = correct[score == 1].mean()
    assert calibrator.predict_proba(np.ones(1))[0] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("unit", [1e-3, 0.003, 0.01])
def test_beta_of_similar_probabilities_reaches_the_minimum(unit):
    logits, y = draw(2000, 20)
    free = BetaCalibration().fit(unit * logits, y).fit_info_
    equal = BetaCalibration(parameters="am").fit(unit * logits, y).fit_info_
    assert free.converged
    assert free.loss_after <= equal.loss_after + 1e-9


@pytest.mark.parametrize(
    "name",
    ["auto", "vector", "matrix", "dirichlet", "svs", "sms", "platt", "beta", "irova", "irovats"],
)
def test_warning_about_classes_without_samples(name):
    logits, y = draw(2000, 6)
    known = y != 3
    with pytest.warns(CalibrationWarning, match=r"1 of 6 classes have no calibration sample .*3"):
        get_calibrator(name).fit(logits[known], y[known])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_calibrator(name).fit(logits, y)


@pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
@pytest.mark.parametrize("n", [1, 5, 400])
@pytest.mark.parametrize("name", ["auto", "ts", "vector", "platt", "isotonic", "energy"])
def test_warning_about_labels_of_one_class(name, n):
    logits, _ = draw(n, 4)
    with pytest.warns(CalibrationWarning, match="all calibration samples are of class 2"):
        calibrator = get_calibrator(name).fit(logits, np.full(n, 2))
    if name == "auto":
        expected = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        np.testing.assert_allclose(calibrator.predict_proba(logits), expected)
