"""Metrics that sort: KS, equal-mass bins, risk and coverage. Ties must not matter."""

from itertools import permutations

import numpy as np
import pytest

from wildcal._old.metrics import aurc, equal_mass_ece, ks_error, l2_ce_debiased


def test_ks_by_hand():
    correct, confidence = np.array([True, False, True]), np.array([0.8, 0.6, 0.3])
    # ascending: .3 - 1 = -.7, + .6 = -.1, + (.8 - 1) = -.3
    assert ks_error(correct, confidence) == pytest.approx(0.7 / 3)


def test_ks_is_the_same_for_every_order_of_ties():
    correct, confidence = np.array([True, False, True, False]), np.array([0.9, 0.9, 0.9, 0.5])
    orders = [list(p) for p in permutations(range(4))]
    # after .5: .5; after the three .9 (two right): .5 + 2.7 - 2 = 1.2
    values = [ks_error(correct[order], confidence[order]) for order in orders]
    np.testing.assert_allclose(values, 0.3, atol=1e-15)


def test_aurc_by_hand():
    correct, confidence = np.array([True, False, True]), np.array([0.9, 0.8, 0.7])
    # risks 0/1, 1/2, 1/3
    assert aurc(correct, confidence) == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)


def test_aurc_is_the_mean_over_the_orders_of_ties():
    correct = np.array([True, False, True, False, True])
    confidence = np.array([0.9, 0.7, 0.7, 0.7, 0.1])

    def untied(order):
        risk = np.cumsum(~correct[[0, *order, 4]]) / np.arange(1, 6)
        return risk.mean()

    expected = np.mean([untied(order) for order in permutations([1, 2, 3])])
    assert aurc(correct, confidence) == pytest.approx(expected)
    assert aurc(correct[::-1], confidence[::-1]) == pytest.approx(expected)


def test_constant_confidence_has_the_error_rate_as_risk():
    assert aurc(np.array([True, False, False, True]), np.full(4, 0.5)) == pytest.approx(0.5)


def test_equal_mass_by_hand():
    correct = np.array([True, False, False, True, True])
    confidence = np.array([0.2, 0.3, 0.6, 0.7, 0.9])
    # parts {.2 .3 .6}, {.7 .9}: |1.1 - 1| + |1.6 - 2|
    assert equal_mass_ece(correct, confidence, n_bins=2) == pytest.approx(0.5 / 5)


def test_equal_values_share_a_bin():
    correct = np.array([True, True, False, False])
    # Any split of the four would show an error; together they are calibrated.
    assert equal_mass_ece(correct, np.full(4, 0.5), n_bins=2) == 0.0


def test_fewer_rows_than_bins():
    correct, confidence = np.array([True, False]), np.array([0.8, 0.4])
    assert equal_mass_ece(correct, confidence) == pytest.approx(0.3)


def test_debiased_by_hand():
    correct = np.array([True, False, True, True])
    confidence = np.array([0.1, 0.2, 0.8, 0.9])
    # bins {.1 .2}: (.5 - .15)² - .25 / 1; {.8 .9}: (1 - .85)² - 0; halves of each, below 0 -> 0
    assert l2_ce_debiased(correct, confidence, n_bins=2) == 0.0
    # one bin: (.75 - .5)² - .1875 / 3 = 0; confidence .1 lower: (.75 - .4)² - .0625
    value = l2_ce_debiased(correct, confidence - 0.1, n_bins=1)
    assert value == pytest.approx(np.sqrt(0.35**2 - 0.0625))
