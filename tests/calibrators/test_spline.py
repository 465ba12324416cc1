"""Spline calibration: the natural spline, ties and weights, few rows, the published variants."""

import tracemalloc

import numpy as np
import pytest

from wildcal.calibrators import SplineCalibration, spline
from wildcal.calibrators.spline import fit_spline, natural_spline
from wildcal.core.convert import softmax
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)


@pytest.mark.parametrize("n_knots", [3, 6, 9])
def test_natural_spline_equals_scipy(n_knots):
    from scipy.interpolate import CubicSpline

    knots = np.random.default_rng(0).normal(size=n_knots)
    t = np.linspace(0, 1, 301)
    expected = CubicSpline(np.linspace(0, 1, n_knots), knots, bc_type="natural")
    value, slope = natural_spline(t, n_knots)
    np.testing.assert_allclose(value @ knots, expected(t), atol=1e-12)
    np.testing.assert_allclose(slope @ knots, expected(t, 1), atol=1e-10)


def test_undoes_a_known_distortion():
    """Accuracy s² at score s: with 50,000 rows the map is found within a few percent."""
    rng = np.random.default_rng(1)
    score = rng.uniform(0.3, 1, 50_000)
    s, r, _ = fit_spline(score, rng.random(50_000) < score**2, None, 6)
    inner = slice(2500, -2500)
    assert np.abs(r - s**2)[inner].max() < 0.04
    assert np.abs(r - s**2).mean() < 0.012


def test_order_of_tied_rows_does_not_matter():
    score = np.repeat([0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 1.0], 30)
    correct = np.random.default_rng(0).random(len(score)) < score
    order = np.random.default_rng(1).permutation(len(score))
    first, second = (fit_spline(score[i], correct[i], None, 6) for i in (slice(None), order))
    np.testing.assert_allclose(first[1], second[1], atol=1e-12)
    assert len(first[0]) == 7


def test_weights_are_repetitions_and_have_no_unit():
    rng = np.random.default_rng(0)
    score, weight = rng.random(200), rng.integers(1, 4, 200)
    correct = rng.random(200) < score
    _, weighted, _ = fit_spline(score, correct, weight.astype(float), 6)
    _, repeated, _ = fit_spline(np.repeat(score, weight), np.repeat(correct, weight), None, 6)
    _, scaled, _ = fit_spline(score, correct, weight / 7, 6)
    np.testing.assert_allclose(weighted, repeated, atol=1e-10)
    np.testing.assert_allclose(weighted, scaled, atol=1e-10)


def test_every_row_right_maps_to_one():
    score = np.linspace(0.2, 0.999, 500)
    _, r, _ = fit_spline(score, np.ones(500, bool), None, 6)
    # A natural spline has no curvature at its ends, where the exact curve has some.
    np.testing.assert_allclose(r, 1, atol=0.06)
    assert r.mean() == pytest.approx(1, abs=0.005)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_fewer_rows_than_knots_stay_finite(n):
    rng = np.random.default_rng(n)
    score = rng.random(n)
    s, r, knots = fit_spline(score, np.arange(n) % 2 == 0, None, 6)
    assert np.isfinite(r).all()
    assert np.isfinite(knots).all()
    if n == 1:
        np.testing.assert_array_equal(r, [1.0])
    else:  # as many knots as points: the curve goes through them
        t = np.arange(n) / (n - 1)
        correct = (np.arange(n) % 2 == 0)[np.argsort(score)]
        np.testing.assert_allclose(
            natural_spline(t, 6)[0] @ knots, np.cumsum(correct - s) / n, atol=1e-9
        )


def test_published_matrix_is_zero_but_for_the_predicted_class():
    fitted = SplineCalibration(fill="zeros").fit(*SUITE.tuning)
    proba = fitted.predict_proba(SUITE.clean.logits)
    pred = SUITE.clean.logits.argmax(axis=1)
    np.testing.assert_array_equal((proba > 0).sum(axis=1), proba.max(axis=1) > 0)
    np.testing.assert_array_equal(proba[np.arange(len(pred)), pred], proba.max(axis=1))
    scaled = SplineCalibration().fit(*SUITE.tuning)
    np.testing.assert_array_equal(
        fitted.confidence(SUITE.clean.logits), scaled.confidence(SUITE.clean.logits)
    )


def test_constant_outside_the_tuning_scores():
    logits, y = SUITE.tuning
    sure = softmax(logits).max(axis=1) > 0.9
    for interp in ("exact", "reference"):
        fitted = SplineCalibration(interp=interp).fit(logits[sure], y[sure])
        flat = np.zeros((1, 10), np.float32)
        expected = np.clip(fitted.values_[0], 0, 1)
        assert fitted.confidence(flat)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_knots": 2}, "n_knots must be a whole number of at least 3"),
        ({"interp": "cubic"}, "interp must be one of 'exact', 'reference'"),
        ({"fill": "ones"}, "fill must be one of 'scale', 'zeros'"),
    ],
)
def test_options(options, message):
    with pytest.raises(ValueError, match=message):
        SplineCalibration(**options).fit(*SUITE.tuning)


def test_checks_of_what_a_file_may_hold():
    fitted = SplineCalibration().fit(*SUITE.tuning)
    fitted._check_fitted()
    fitted.values_ = fitted.values_[:-1]
    with pytest.raises(ValueError, match="one length"):
        fitted._check_fitted()
    fitted = SplineCalibration().fit(*SUITE.tuning)
    fitted.scores_ = fitted.scores_[::-1]
    with pytest.raises(ValueError, match="must increase"):
        fitted._check_fitted()


def test_a_fit_takes_no_more_memory_than_is_asked_for():
    n, n_knots = 100_000, 6
    rng = np.random.default_rng(0)
    score = rng.random(n)
    correct = rng.random(n) < score
    tracemalloc.start()
    try:
        fit_spline(score, correct, None, n_knots)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= n * (spline._BYTES + n_knots * spline._BYTES_A_KNOT)


def test_pieces_of_its_matrices_change_no_bit(monkeypatch):
    score = np.linspace(0.3, 1, 1000)
    correct = np.random.default_rng(0).random(1000) < score
    whole = fit_spline(score, correct, None, 6)
    monkeypatch.setattr(spline, "_ROWS", 7)
    for a, b in zip(whole, fit_spline(score, correct, None, 6), strict=True):
        np.testing.assert_array_equal(a, b)
