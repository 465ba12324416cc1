"""The edge-case matrix: every method on every odd tuning set, and what it must answer there."""

import warnings

import numpy as np
import pytest

from wildcal import CALIBRATORS
from wildcal.core.calibrator import TemperatureMap
from wildcal.core.errors import CalibrationWarning
from wildcal.metrics import ece, kde_ece, mean_confidence
from wildcal.testing import make_suite

SUITE = make_suite(3, n_classes=4, n_tuning=400, n_ood_tuning=5, n_test=200)
KNOWN = SUITE.tuning.y >= 0
Z, Y = SUITE.tuning.logits[KNOWN].astype(np.float64), SUITE.tuning.y[KNOWN]
PRED = Z.argmax(axis=1)
X = SUITE.shifted.logits.astype(np.float64)
TOP_LABEL = ("spline", "histogram", "isotonic", "bbq", "beta")
ONE_TEMPERATURE = ("ts", "tsmix", "energy", "ets")
EVERY = pytest.mark.parametrize("name", CALIBRATORS)


def fit(name, logits, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return CALIBRATORS[name]().fit(logits, y)


def is_distribution(proba):
    return np.isfinite(proba).all() and np.allclose(proba.sum(axis=1), 1, atol=1e-6)


@EVERY
def test_all_correct(name):
    fitted = fit(name, Z, PRED)
    assert is_distribution(fitted.predict_proba(X))
    if name in ONE_TEMPERATURE:
        assert fitted.temperature_ == pytest.approx(0.01)
        assert "at its bound" in " ".join(fitted.fit_.notes)
    if name == "ets":
        np.testing.assert_allclose(fitted.weights_, [1, 0, 0], atol=1e-6)
    if name in ("isotonic", "spline"):
        # Every held-out confidence was right, so those confidences are certain now.
        assert fitted.confidence(Z).min() == pytest.approx(1, abs=1e-3)


@EVERY
def test_none_correct(name):
    wrong = (PRED + 1) % 4
    fitted = fit(name, Z, wrong)
    proba = fitted.predict_proba(X)
    assert is_distribution(proba)
    before = fit("identity", Z, wrong).confidence(Z).mean()
    if name != "identity":
        assert fitted.confidence(Z).mean() < before
    if name in ONE_TEMPERATURE:
        assert fitted.temperature_ > 3
    if name == "ets":
        assert fitted.weights_[2] > 0.5
    if name in ("isotonic", "spline"):
        assert fitted.confidence(Z).max() == 0


@EVERY
def test_one_class_only(name):
    rows = Y == 2
    fitted = fit(name, Z[rows], Y[rows])
    proba = fitted.predict_proba(X)
    assert is_distribution(proba)
    if name == "irova":
        assert proba[:, [0, 1, 3]].max() <= 0.26  # their curves are zero: only uniform rows


@EVERY
def test_two_classes(name):
    suite = make_suite(4, n_classes=2, n_tuning=300, n_ood_tuning=5, n_test=100)
    known = suite.tuning.y >= 0
    fitted = fit(name, suite.tuning.logits[known], suite.tuning.y[known])
    proba = fitted.predict_proba(suite.clean.logits)
    assert is_distribution(proba)
    assert ece(suite.clean.y, proba) < 0.2


@EVERY
def test_ties_in_the_logits(name):
    """The first of equal logits is predicted, and equal logits get equal probabilities."""
    fitted = fit(name, np.round(Z), Y)
    tied = np.array([[2.0, 2.0, 0.0, 0.0], [1.0, 3.0, 3.0, 0.0]])
    proba = fitted.predict_proba(tied)
    assert is_distribution(proba)
    np.testing.assert_array_equal(fitted.predict(tied), [0, 1])
    np.testing.assert_allclose(fitted.confidence(tied), proba[[0, 1], [0, 1]], rtol=1e-6)
    if isinstance(fitted, TemperatureMap) or name in ("ets", "irm"):
        assert proba[0, 0] == pytest.approx(proba[0, 1])
        assert proba[1, 1] == pytest.approx(proba[1, 2])


@EVERY
def test_all_logits_equal(name):
    flat = np.full((80, 4), 2.0)
    fitted = fit(name, flat, np.arange(80) % 4)
    proba = fitted.predict_proba(flat)
    assert is_distribution(proba)
    np.testing.assert_allclose(proba, 0.25, atol=0.01)
    if name in ONE_TEMPERATURE:
        assert fitted.temperature_ == pytest.approx(1)
    if name == "ets":
        np.testing.assert_allclose(fitted.weights_, [1, 0, 0], atol=1e-6)


@EVERY
def test_a_handful_of_rows(name):
    for n in (1, 2, 3, 5):
        assert is_distribution(fit(name, Z[:n], Y[:n]).predict_proba(X))


@EVERY
def test_no_rows(name):
    with pytest.raises(ValueError, match="at least one row"):
        CALIBRATORS[name]().fit(Z[:0], Y[:0])


@EVERY
def test_ood_rows(name):
    y = np.where(np.arange(len(Y)) < 40, -1, Y)
    if CALIBRATORS[name].accepts_ood:
        assert fit(name, Z, y).fit_.n_ood == 40
    else:
        with pytest.raises(ValueError, match="does not use out-of-distribution rows"):
            CALIBRATORS[name]().fit(Z, y)


@EVERY
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(name, bad):
    spoiled = Z.copy()
    spoiled[17, 3] = bad
    with pytest.raises(ValueError, match="row 17 holds"):
        CALIBRATORS[name]().fit(spoiled, Y)
    with pytest.raises(ValueError, match="row 17 holds"):
        fit(name, Z, Y).confidence(spoiled)


@EVERY
def test_huge_logits(name):
    fitted = fit(name, Z * 1e4, Y)
    for dtype in (np.float32, np.float64):
        assert is_distribution(fitted.predict_proba((X * 1e4).astype(dtype)))


@EVERY
def test_wide_logits_of_many_classes(name):
    """Probabilities down to the smallest floats, whose differences have no inverse."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 200, (120, 40))
    fitted = fit(name, z, rng.integers(0, 40, 120))
    assert is_distribution(fitted.predict_proba(rng.normal(0, 200, (200, 40))))


def test_thresholds_a_denormal_apart():
    z = np.array([[0, -720], [0, -720.5], [0, -721], [-720, 0]])
    for name in ("irm", "irova", "irovats"):
        proba = fit(name, z, np.array([0, 1, 0, 1])).predict_proba([[0, -720.75]])
        assert is_distribution(proba)


@EVERY
def test_classes_ruled_out(name):
    """-inf for a class, at fit and at predict."""
    blocked = Z.copy()
    blocked[::3, 1] = -np.inf
    y = np.where((Y == 1) & (np.arange(len(Y)) % 3 == 0), 0, Y)
    fitted = fit(name, blocked, y)
    proba = fitted.predict_proba(blocked)
    assert is_distribution(proba)


def test_metrics_where_nothing_is_right():
    proba = fit("identity", Z, Y).predict_proba(X)
    wrong = (X.argmax(axis=1) + 1) % 4
    confidence = mean_confidence(wrong, proba)
    assert ece(wrong, proba) == pytest.approx(confidence)
    assert kde_ece(wrong, proba) == pytest.approx(confidence)
