import json

import numpy as np
import pytest

from wildcal._old.metrics import (
    TopLabelAccumulator,
    accuracy,
    ece,
    mce,
    mean_confidence,
    reliability,
    top_label_brier,
    top_label_brier_per_sample,
)

CORRECT = np.array([True, False, True, True])
CONFIDENCE = np.array([0.55, 0.65, 0.95, 0.95])


def test_by_hand():
    # bins: [.55] right, [.65] wrong, [.95 .95] right  ->  (.45 + .65 + 2*.05) / 4
    assert ece(CORRECT, CONFIDENCE, n_bins=10) == pytest.approx(0.30)
    assert mce(CORRECT, CONFIDENCE, n_bins=10) == pytest.approx(0.65)
    # Only the last bin has two rows.
    assert mce(CORRECT, CONFIDENCE, n_bins=10, min_count=2) == pytest.approx(0.05)
    assert accuracy(CORRECT, CONFIDENCE) == 0.75
    assert mean_confidence(CORRECT, CONFIDENCE) == pytest.approx(0.775)
    # (.45² + .65² + 2 · .05²) / 4
    assert top_label_brier(CORRECT, CONFIDENCE) == pytest.approx((0.2025 + 0.4225 + 0.005) / 4)


def test_rows_by_hand():
    proba = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6], [0.3, 0.3, 0.4]])
    y = np.array([0, 2, 2, -1])
    # right .7, wrong .5, right .6, wrong .4 (nothing is right out of distribution); one bin:
    # |.7 + .5 + .6 + .4 - 2| / 4
    assert ece(y, proba, n_bins=1) == pytest.approx(0.05)
    assert accuracy(y, proba) == 0.5
    # ten bins: each row alone, .3 + .5 + .4 + .4
    assert ece(y, proba, n_bins=10) == pytest.approx(1.6 / 4)


def test_ties_go_to_the_first_class():
    proba = np.full((3, 4), 0.25)
    assert accuracy([0, 1, 3], proba) == pytest.approx(1 / 3)
    # The same with enough classes for the other way of finding the maximum.
    assert accuracy([0, 1, 3], np.full((3, 40), 0.025)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("n_classes", [3, 40])
def test_pred_from_the_logits_wins_over_argmax(n_classes):
    proba = np.zeros((2, n_classes))
    proba[:, :3] = [[0.2, 0.5, 0.3], [0.1, 0.3, 0.6]]
    pred = np.array([2, 2])
    # confidences .3 and .6, both right
    assert ece([2, 2], proba, pred=pred, n_bins=1) == pytest.approx(0.55)
    assert accuracy([2, 2], proba, pred=pred) == 1.0


def test_both_forms_agree(make_rows):
    y, proba = make_rows(500, 7, ood=0.2)
    correct, confidence = proba.argmax(axis=1) == y, proba.max(axis=1)
    for metric in (ece, mce, accuracy, mean_confidence, top_label_brier):
        assert metric(y, proba) == metric(correct, confidence)
        assert metric(y, proba, pred=proba.argmax(axis=1)) == metric(y, proba)


def test_rounding_above_one_is_clipped():
    assert ece(np.array([True]), np.array([1 + 5e-7])) == 0.0
    assert mean_confidence([0], np.array([[1 + 5e-7, 0.0]])) == 1.0


def test_per_sample_mean_is_the_score(make_rows):
    y, proba = make_rows(300, 5, ood=0.1)
    rows = top_label_brier_per_sample(y, proba)
    assert rows.shape == (300,)
    assert rows.mean() == pytest.approx(top_label_brier(y, proba), abs=1e-15)


def test_all_out_of_distribution_is_mean_confidence(make_rows):
    y, proba = make_rows(200, 5, ood=1.1)
    assert ece(y, proba) == pytest.approx(mean_confidence(y, proba))


def test_reliability_by_hand():
    table = reliability(CORRECT, CONFIDENCE, n_bins=10)
    assert table.count.tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 0, 2]
    np.testing.assert_allclose(table.accuracy[[5, 6, 9]], [1, 0, 1])
    np.testing.assert_allclose(table.confidence[[5, 6, 9]], [0.55, 0.65, 0.95])
    assert np.isnan(table.accuracy[0])
    assert np.isnan(table.low[0])
    # Wilson with z = 1.96: 2 of 2 -> [n / (n + z²), 1] = [2 / 5.8415, 1]; 0 of 1 -> [0, z²/(1+z²)]
    assert table.low[9] == pytest.approx(2 / 5.8415, abs=1e-4)
    assert table.high[9] == 1
    assert table.high[6] == pytest.approx(3.8415 / 4.8415, abs=1e-4)
    assert table.ece == pytest.approx(0.30)
    assert table.mce == pytest.approx(0.65)
    assert table.n == 4


def test_reliability_survives_json():
    table = reliability(CORRECT, CONFIDENCE, n_bins=10).to_dict()
    assert json.loads(json.dumps(table, allow_nan=False)) == table
    assert table["accuracy"][:7] == [None] * 5 + [1.0, 0.0]


def test_empty_table():
    table = TopLabelAccumulator(3).reliability()
    assert table.n == 0
    assert np.isnan(table.ece)
    assert np.isnan(table.mce)
