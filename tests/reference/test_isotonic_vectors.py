"""IRM, IROvA, IROvATS and the spline against the public code, and its confidences above one.

The public code does not divide by the sum of a sample; `curve` returns what it calls probabilities.
Its swapped interpolation weights and the zeros of its spline are variants of `reproduce`.
"""

import numpy as np
import pytest

from wildcal import SplineCalibration, get_calibrator
from wildcal.core.arrays import softmax
from wildcal.core.piecewise import interpolate

pytestmark = pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
FAMILY = ("irm", "irova", "irovats")
SETS = ["k10", "k3", "k2"]


def curve(fitted, logits):
    """Return f(p) + 1e-9 p, at most 1, without normalization."""
    p = softmax(np, logits, getattr(fitted, "temperature_", 1.0))
    f = interpolate(np, p, fitted.knots_, fitted.values_, fitted.slopes_)
    return np.minimum(f + 1e-9 * p, 1)


@pytest.mark.parametrize("k", SETS)
@pytest.mark.parametrize("name", FAMILY)
def test_isotonic_family(vectors, reference_data, k, name):
    data, expected = reference_data(k), vectors("isotonic_spline")[k][name]
    fitted = get_calibrator(name).fit(*data["without_ood"])
    proba = curve(fitted, data["test_logits"])
    # The public temperature carries the noise of its solver (9e-8), and IROvATS inherits it.
    atol = 1e-6 if name == "irovats" else 1e-9
    published = np.array(expected["probs_test_first5_unnormalised"])
    np.testing.assert_allclose(proba[:5], np.minimum(published, 1), rtol=0, atol=atol)
    kept = proba.argmax(axis=1) == data["test_logits"].argmax(axis=1)
    assert kept.sum() == expected["argmax_equals_uncal"]
    if name == "irm":
        top = np.minimum(expected["top_conf_first20"], 1)
        np.testing.assert_allclose(proba.max(axis=1)[:20], top, rtol=0, atol=1e-9)
        assert np.isfinite(fitted.knots_).sum() == expected["n_thresholds"]
        assert fitted.values_[0] == expected["f_min"]
        assert fitted.values_[-1] == expected["f_max"]
        assert (fitted.predict(data["test_logits"]) == data["test_logits"].argmax(axis=1)).all()
    if name == "irovats":
        assert fitted.temperature_ == pytest.approx(expected["T_mse"][0], rel=1e-6)


def published_ece(proba, y):
    """The public code's error in percent: the largest entry of a row, bins with float32 edges."""
    confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == y
    edges = np.linspace(0, 1, 16).astype(np.float32)
    bins = np.searchsorted(edges, confidence) - 1
    gap = np.bincount(bins, confidence.astype(np.float64) - correct, 15)
    return 100 * np.abs(gap).sum() / len(y)


@pytest.mark.parametrize("k", SETS)
@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, np.float64) for name in FAMILY), ("irm", np.float32)]
)
def test_no_confidence_is_lost_above_one(vectors, reference_data, k, name, dtype):
    """Published confidences reach 1 + 1e-9 and fall out of the last bin; ours do not.

    In float32 the public code loses the 1e-9, so that plateaus give the label to the first class;
    ours keeps the predicted class, and its numbers are those of float64.
    """
    data, expected = reference_data(k), vectors("isotonic_conf_gt1")[f"{k}_f64"][name]
    logits, y = data["without_ood"]
    fitted = get_calibrator(name).fit(logits.astype(dtype), y)
    test, labels = data["test_logits"].astype(dtype), data["test_labels"]
    assert expected["n_conf_gt_1"] > 0
    proba = fitted.predict_proba(test)
    assert proba.max() <= 1
    found = published_ece(proba, labels)
    assert found == pytest.approx(expected["ece_row_normalised"], abs=1e-3)
    if dtype == np.float64:
        found = published_ece(curve(fitted, test), labels)
        assert found == pytest.approx(expected["ece_clipped"], abs=1e-3)


@pytest.mark.parametrize("k", SETS)
def test_spline(vectors, reference_data, k):
    data, expected = reference_data(k), vectors("isotonic_spline")[k]["spline"]
    fitted = SplineCalibration().fit(*data["without_ood"])
    assert fitted.n_knots == expected["nknots"]
    n = np.isfinite(fitted.knots_).sum()
    scores, values = 1 - fitted.knots_[:n][::-1], fitted.values_[:n][::-1]
    for name, found in (("recal_x", scores), ("recal_y", values)):
        np.testing.assert_allclose(found[:5], expected[f"{name}_first5"], rtol=0, atol=1e-9)
        np.testing.assert_allclose(found[-5:], expected[f"{name}_last5"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        fitted.confidence(data["test_logits"])[:20],
        np.maximum(expected["correct_interp_conf_test_first20"], (1 + 2e-6) / int(k[1:])),
        rtol=0,
        atol=1e-9,
    )
