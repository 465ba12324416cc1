"""Detection and abstention: by hand, and against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.metrics import aupr_in, aupr_out, aurc, auroc, fpr95, risk_coverage


def test_auroc_by_hand():
    # pairs (.9 > .5), (.9 > .4), (.4 < .5), (.4 = .4): 2 wins, 1 tie, 1 loss
    positive = np.array([True, True, False, False])
    assert auroc(positive, [0.9, 0.4, 0.5, 0.4]) == pytest.approx(2.5 / 4)


def test_average_precision_by_hand():
    is_id = np.array([True, False, True, False])
    # in: hits at ranks 1 and 3, precision 1/1 and 2/3. out, from below: ranks 1 and 3 again.
    assert aupr_in(is_id, [0.9, 0.8, 0.7, 0.1]) == pytest.approx((1 + 2 / 3) / 2)
    assert aupr_out(is_id, [0.9, 0.8, 0.7, 0.1]) == pytest.approx((1 + 2 / 3) / 2)


def test_fpr95_by_hand():
    is_id = np.array([True] * 20 + [False] * 4)
    # The 19th in-distribution sample (.81) is 95 %: one of four others (.9) lies above it.
    scores = np.concatenate([np.linspace(1, 0.81, 20) - 1e-9, [0.9, 0.5, 0.4, 0.3]])
    assert fpr95(is_id, scores) == 0.25
    # Catching all four (.9 and below) costs the ten samples at .9 and below.
    assert fpr95(is_id, scores, positive="ood") == pytest.approx(10 / 20)


@pytest.mark.parametrize("seed", range(3))
def test_scikit_learn_agrees_with_and_without_ties(seed):
    rng = np.random.default_rng(seed)
    is_id = rng.random(200) < 0.7
    for scores in (rng.normal(size=200) + is_id, rng.integers(0, 6, 200) + is_id):
        assert auroc(is_id, scores) == pytest.approx(roc_auc_score(is_id, scores), abs=1e-12)
        expected = average_precision_score(is_id, scores)
        assert aupr_in(is_id, scores) == pytest.approx(expected, abs=1e-12)
        expected = average_precision_score(~is_id, -scores)
        assert aupr_out(is_id, scores) == pytest.approx(expected, abs=1e-12)
        for positive, flags, ranks in (("id", is_id, scores), ("ood", ~is_id, -scores)):
            false, true, _ = roc_curve(flags, ranks, drop_intermediate=False)
            assert fpr95(is_id, scores, positive=positive) == false[true >= 0.95 - 1e-12][0]


@pytest.mark.parametrize("metric", [auroc, aupr_in, aupr_out, fpr95])
def test_one_kind_of_samples_is_nan(metric):
    for flags in (np.ones(3, dtype=bool), np.zeros(3, dtype=bool)):
        with pytest.warns(CalibrationWarning, match="not defined"):
            assert np.isnan(metric(flags, np.arange(3.0)))


def test_input_errors():
    flags = np.array([True, False])
    with pytest.raises(InputError, match="positive must be booleans"):
        auroc(flags.astype(int), [1.0, 2.0])
    with pytest.raises(InputError, match=r"scores must be finite numbers of shape \(2,\)"):
        aupr_in(flags, [1.0, np.nan])


def test_aurc_by_hand_and_by_orders_of_ties():
    assert aurc(np.array([True, False]), [0.9, 0.6]) == pytest.approx((0 / 1 + 1 / 2) / 2)
    # Two tied after one right: the mean over both orders of (0 + 1/2 + 1/3, 0 + 0/2 + 1/3) / 3.
    value = aurc(np.array([True, True, False]), [0.9, 0.5, 0.5])
    assert value == pytest.approx(((0 + 1 / 2 + 1 / 3) + (0 + 0 + 1 / 3)) / 2 / 3)


def test_risk_coverage():
    correct = np.array([True, True, False, True, False])
    curve = risk_coverage(correct, [0.9, 0.8, 0.8, 0.4, 0.1], sample_weight=[2, 1, 1, 1, 1])
    np.testing.assert_allclose(curve.threshold, [0.9, 0.8, 0.4, 0.1])
    np.testing.assert_allclose(curve.coverage, np.array([2, 4, 5, 6]) / 6)
    np.testing.assert_allclose(curve.risk, [0, 1 / 4, 1 / 5, 2 / 6])
    assert curve.coverage_at(0.8) == pytest.approx(5 / 6)
    assert curve.coverage_at(0.99) == pytest.approx(2 / 6)


def test_thinned_curve_has_both_ends():
    rng = np.random.default_rng(0)
    curve = risk_coverage(rng.random(5000) < 0.8, rng.random(5000))
    few = curve.thinned(50)
    assert len(few.risk) <= 50
    assert few.coverage[0] == curve.coverage[0]
    assert few.coverage[-1] == curve.coverage[-1] == 1
