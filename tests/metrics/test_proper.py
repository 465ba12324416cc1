import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from wildcal._old.metrics import brier, brier_per_sample, nll, nll_per_sample


def test_by_hand():
    proba = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
    y = [0, 2]
    assert nll(y, proba) == pytest.approx(-(np.log(0.5) + np.log(0.1)) / 2)
    # .25 + .0625 + .0625, and .01 + .64 + .81
    assert brier(y, proba) == pytest.approx((0.375 + 1.46) / 2)


def test_scikit_learn_agrees(make_rows):
    y, proba = make_rows(500, 6)
    assert nll(y, proba) == pytest.approx(log_loss(y, proba, labels=range(6)), abs=1e-12)
    multi = brier_score_loss(y, proba, labels=range(6), scale_by_half=False)
    assert brier(y, proba) == pytest.approx(multi, abs=1e-12)
    y, proba = make_rows(500, 2)
    assert brier(y, proba) == pytest.approx(2 * brier_score_loss(y, proba[:, 1]), abs=1e-12)


def test_a_certain_mistake_has_a_finite_cost():
    assert nll([1], np.array([[1.0, 0.0]])) == pytest.approx(-np.log(1e-34))
    assert brier([1], np.array([[1.0, 0.0]])) == 2.0
    assert nll([0], np.array([[1.0, 0.0]])) == 0.0
    assert brier([0], np.array([[1.0, 0.0]])) == 0.0


def test_out_of_distribution_rows_are_left_out(make_rows):
    y, proba = make_rows(300, 6, ood=0.3)
    inside = y >= 0
    for metric, rows in ((nll, nll_per_sample), (brier, brier_per_sample)):
        assert metric(y, proba) == pytest.approx(metric(y[inside], proba[inside]), abs=1e-15)
        assert rows(y, proba).shape == (inside.sum(),)
        assert rows(y, proba).mean() == pytest.approx(metric(y, proba), abs=1e-15)


def test_rows_that_do_not_sum_to_one():
    # Σ (p - t)² = .01 + .81, although the squares of the row add up to more than one.
    assert brier([0], np.array([[0.9, 0.9]])) == pytest.approx(0.82)


def test_empty_per_sample():
    assert nll_per_sample([], np.empty((0, 3))).shape == (0,)
