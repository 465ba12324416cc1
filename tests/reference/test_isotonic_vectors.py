"""IRM, IROvA, IROvATS and the spline against the public code, and its confidences above one."""

import numpy as np
import pytest

from wildcal.calibrators import (
    IsotonicMultiClass,
    IsotonicOneVsAll,
    ScaledIsotonicOneVsAll,
    SplineCalibration,
)

FAMILY = {
    kind.name: kind for kind in (IsotonicMultiClass, IsotonicOneVsAll, ScaledIsotonicOneVsAll)
}
SETS = ["k10", "k3", "k2"]


@pytest.mark.parametrize("k", SETS)
@pytest.mark.parametrize("name", FAMILY)
def test_isotonic_family(vectors, reference_data, k, name):
    data, expected = reference_data(k), vectors("isotonic_spline")[k][name]
    fitted = FAMILY[name](normalize="none").fit(*data["without_ood"])
    proba = fitted.predict_proba(data["test_logits"])
    # The public temperature carries the noise of its solver (9e-8), and IROvATS inherits it.
    atol = 1e-6 if name == "irovats" else 1e-9
    published = np.array(expected["probs_test_first5_unnormalised"])
    np.testing.assert_allclose(proba[:5], np.minimum(published, 1), rtol=0, atol=atol)
    kept = proba.argmax(axis=1) == data["test_logits"].argmax(axis=1)
    assert kept.sum() == expected["argmax_equals_uncal"]
    if name == "irm":
        top = np.minimum(expected["top_conf_first20"], 1)
        np.testing.assert_allclose(proba.max(axis=1)[:20], top, rtol=0, atol=1e-9)
        # scikit-learn keeps the smallest x as well, where f is the same zero as beyond it.
        assert len(fitted.thresholds_) == expected["n_thresholds"] - 1
        assert fitted.values_[0] == expected["f_min"]
        assert fitted.values_[-1] == expected["f_max"]
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
@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize(
    ("normalize", "key"), [("none", "ece_clipped"), ("row", "ece_row_normalised")]
)
def test_no_confidence_is_lost_above_one(vectors, reference_data, k, name, normalize, key):
    """Published float64 confidences reach 1 + 1e-9 and fall out of the last bin; ours do not."""
    data, expected = reference_data(k), vectors("isotonic_conf_gt1")[f"{k}_f64"][name]
    fitted = FAMILY[name](normalize=normalize).fit(*data["without_ood"])
    proba = fitted.predict_proba(data["test_logits"])
    assert proba.max() <= 1
    assert expected["n_conf_gt_1"] > 0
    assert published_ece(proba, data["test_labels"]) == pytest.approx(expected[key], abs=1e-3)


@pytest.mark.parametrize("k", SETS)
def test_float32_keeps_the_label_where_the_public_code_loses_it(vectors, reference_data, k):
    """In float32 the 1e-9 is rounded away, so that plateaus give the label to the first class.

    The public numbers then move from 3.99 to 4.33 (k10); ours are the float64 ones.
    """
    data, published = reference_data(k), vectors("isotonic_conf_gt1")
    logits, y = data["without_ood"]
    fitted = IsotonicMultiClass(normalize="none").fit(logits.astype(np.float32), y)
    proba = fitted.predict_proba(data["test_logits"].astype(np.float32))
    got = published_ece(proba, data["test_labels"])
    assert got == pytest.approx(published[f"{k}_f64"]["irm"]["ece_clipped"], abs=1e-3)
    if k == "k10":
        assert abs(got - published["k10_f32"]["irm"]["ece_clipped"]) > 0.3


@pytest.mark.parametrize("k", SETS)
def test_float32_one_vs_all(vectors, reference_data, k):
    data, expected = reference_data(k), vectors("isotonic_conf_gt1")[f"{k}_f32"]["irova"]
    logits, y = data["without_ood"]
    fitted = IsotonicOneVsAll(normalize="none").fit(logits.astype(np.float32), y)
    proba = fitted.predict_proba(data["test_logits"].astype(np.float32))
    got = published_ece(proba, data["test_labels"])
    assert got == pytest.approx(expected["ece_clipped"], abs=1e-3)


@pytest.mark.parametrize("k", SETS)
def test_spline(vectors, reference_data, k):
    data, expected = reference_data(k), vectors("isotonic_spline")[k]["spline"]
    fitted = SplineCalibration().fit(*data["without_ood"])
    assert fitted.n_knots == expected["nknots"]
    np.testing.assert_allclose(fitted.knots_, expected["knot_y"], rtol=0, atol=1e-9)
    for ours, end, part in (
        (fitted.scores_, "recal_x", slice(None, 5)),
        (fitted.values_, "recal_y", slice(None, 5)),
        (fitted.scores_, "recal_x", slice(-5, None)),
        (fitted.values_, "recal_y", slice(-5, None)),
    ):
        key = f"{end}_first5" if part.start is None else f"{end}_last5"
        np.testing.assert_allclose(ours[part], expected[key], rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        fitted.confidence(data["test_logits"])[:20],
        expected["correct_interp_conf_test_first20"],
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize("k", SETS)
def test_spline_with_the_published_interpolation(vectors, reference_data, k):
    data, expected = reference_data(k), vectors("isotonic_spline")[k]["spline"]
    fitted = SplineCalibration(interp="reference").fit(*data["without_ood"])
    got = fitted.confidence(data["test_logits"])
    np.testing.assert_allclose(got[:20], expected["reference_conf_test_first20"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        fitted.confidence(data["val_logits"])[:10],
        expected["reference_conf_val_first10"],
        rtol=0,
        atol=1e-9,
    )
    exact = SplineCalibration().fit(*data["without_ood"]).confidence(data["test_logits"])
    difference = np.abs(got - exact).max()
    assert difference == pytest.approx(expected["max_abs_diff_ref_vs_correct_interp"], abs=1e-9)


@pytest.mark.parametrize("k", ["k10", "k3"])
def test_method_table(vectors, reference_data, k):
    """The published matrix of the spline: zeros but for the predicted class."""
    data = reference_data(k)
    expected = vectors("isotonic_conf_gt1")["method_table_reference_float64"][k]["spline"]
    fitted = SplineCalibration(interp="reference", fill="zeros").fit(*data["without_ood"])
    proba = fitted.predict_proba(data["test_logits"])
    got = published_ece(proba, data["test_labels"])
    assert got == pytest.approx(expected["ece_pct"], abs=1e-3)
    chosen = proba[np.arange(len(proba)), data["test_labels"]]
    nll = -np.log(np.maximum(chosen, 1e-34)).mean()
    assert nll == pytest.approx(expected["nll_eps1e-34"], rel=1e-6)
