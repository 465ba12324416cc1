"""Reliability curves and the decomposition of scores."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from wildcal.metrics import (
    brier_score,
    decompose,
    ece,
    isotonic_reliability,
    nll,
    reliability,
    top_label_brier,
)


def test_binned_curve_by_hand():
    curve = reliability(np.array([True, False, True]), [0.3, 0.9, 0.8], n_bins=2)
    assert curve.count.tolist() == [1, 2]
    assert curve.accuracy.tolist() == [1, 0.5]
    assert curve.confidence == pytest.approx([0.3, 0.85])
    assert (curve.low < curve.accuracy).all()


def test_empty_bins_are_nan_and_null():
    curve = reliability(np.array([True]), [0.9], n_bins=3)
    assert np.isnan(curve.accuracy[0])
    assert curve.to_dict()["accuracy"] == [None, None, 1.0]


def test_curve_has_the_ece(make_samples):
    y, proba = make_samples(500, 4)
    assert reliability(y, proba).ece == pytest.approx(ece(y, proba), abs=1e-12)


def test_isotonic_curve_agrees_with_scikit_learn(make_samples):
    y, proba = make_samples(400, 3)
    correct, confidence = proba.argmax(axis=1) == y, np.round(proba.max(axis=1), 2)
    curve = isotonic_reliability(correct, confidence)
    expected = IsotonicRegression().fit(confidence, correct).predict(confidence)
    step = np.searchsorted(curve.low, confidence, side="right") - 1
    np.testing.assert_allclose(curve.accuracy[step], expected, atol=1e-12)
    assert curve.count.sum() == 400


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize(("score", "function"), [("nll", nll), ("brier_score", brier_score)])
def test_parts_add_up(make_samples, n_classes, score, function):
    y, proba = make_samples(3000, n_classes, ood=0.1)
    parts = decompose(y, proba, score=score)
    assert parts.score == pytest.approx(function(y, proba), abs=1e-12)
    total = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert parts.score == pytest.approx(total, abs=1e-12)
    assert parts.miscalibration > 0
    assert parts.discrimination > 0
    share = np.bincount(y[y >= 0]) / (y >= 0).sum()
    uncertainty = {"nll": -(share * np.log(share)).sum(), "brier_score": 1 - (share**2).sum()}
    assert parts.uncertainty == pytest.approx(uncertainty[score], abs=1e-12)


def test_miscalibration_of_a_distorted_forecast():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 50_000)
    y = rng.random(50_000) < p
    calibrated, distorted = (
        decompose(y, q, score="brier_score") for q in (p, 0.5 + (p - 0.5) * 0.5)
    )
    assert calibrated.miscalibration < 0.001
    # E (p - q)^2 with p - q = (p - 0.5) / 2 and p uniform of width 0.9
    expected = 0.25 * 0.9**2 / 12
    assert distorted.miscalibration - calibrated.miscalibration == pytest.approx(expected, rel=0.02)
    assert distorted.discrimination == pytest.approx(calibrated.discrimination)
    assert calibrated.score == pytest.approx(top_label_brier(y, p))


def test_weights_are_counts_in_decompositions():
    y, p = np.array([True, False, True]), np.array([0.9, 0.7, 0.2])
    weighted = decompose(y, p, sample_weight=[2, 1, 3])
    repeated = decompose(np.repeat(y, [2, 1, 3]), np.repeat(p, [2, 1, 3]))
    assert weighted.to_dict() == pytest.approx(repeated.to_dict())
