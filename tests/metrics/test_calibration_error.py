"""Calibration errors by hand, and against direct sums."""

import numpy as np
import pytest
from scipy.stats import binom

from wildcal.metrics import (
    classwise_ece,
    debiased_l2_ce,
    ece,
    excess_ece,
    kde_ece,
    ks_error,
    mce,
    mean_confidence,
    noise_floor,
)


def test_ece_by_hand():
    # bins: [.55] right, [.65] wrong, [.95 .95] right  ->  (.45 + .65 + 2 * .05) / 4
    correct = np.array([True, False, True, True])
    assert ece(correct, [0.55, 0.65, 0.95, 0.95], n_bins=10) == pytest.approx(0.3)
    assert mce(correct, [0.55, 0.65, 0.95, 0.95], n_bins=10) == pytest.approx(0.65)


def test_edges_belong_to_the_bin_below():
    # 0.5 is in (0, 0.5] with 0.1: gap of sums |0.6 - 1|; 0.6 alone in (0.5, 1].
    assert ece(np.array([True, False, True]), [0.5, 0.1, 0.6], n_bins=2) == pytest.approx(
        (0.4 + 0.4) / 3
    )


def test_ood_samples_count_as_wrong():
    proba = np.array([[0.75, 0.25], [0.25, 0.75]])
    assert ece([-1, -1], proba) == kde_ece([-1, -1], proba) == 0.75
    assert mean_confidence([-1, -1], proba) == 0.75


def test_quantile_bins_by_hand():
    # 5 samples, 2 bins: 3 and 2 of them. (|1.2 - 1| + |1.7 - 1|) / 5
    correct = np.array([True, False, False, False, True])
    value = ece(correct, [0.3, 0.4, 0.5, 0.8, 0.9], n_bins=2, strategy="quantile")
    assert value == pytest.approx((0.2 + 0.7) / 5)


def test_equal_confidences_stay_in_one_quantile_bin():
    correct = np.array([True, False, True, False])
    assert ece(correct, [0.5] * 4, n_bins=4, strategy="quantile") == 0


def test_debiased_error_subtracts_the_noise():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.3, 0.9, 100_000)
    assert debiased_l2_ce(rng.random(100_000) < confidence + 0.05, confidence) == pytest.approx(
        0.05, abs=0.004
    )


def test_classwise_by_hand_and_by_classes(make_samples):
    # class 0: (.75, .75) with one of two; class 1: (.25, .25) with one of two
    assert classwise_ece([0, 1], np.array([[0.75, 0.25], [0.75, 0.25]])) == 0.25
    y, proba = make_samples(400, 30)
    each = [ece(y == k, proba[:, k]) for k in range(30)]
    assert classwise_ece(y, proba) == pytest.approx(np.mean(each), abs=1e-12)


def test_classwise_leaves_out_ood_samples(make_samples):
    y, proba = make_samples(400, 3, ood=0.3)
    assert classwise_ece(y, proba) == classwise_ece(y[y >= 0], proba[y >= 0])


def test_ks_by_hand():
    # sorted: .5 wrong, .75 right, .75 wrong: sums .5, then .5 - .25 + .75 = 1
    value = ks_error(np.array([True, False, False]), [0.75, 0.75, 0.5])
    assert value == pytest.approx(1 / 3)


def test_noise_floor_by_hand():
    # One sample at .8: right (.8) leaves .2, wrong (.2) leaves .8.
    assert noise_floor([0.8]) == pytest.approx(0.8 * 0.2 + 0.2 * 0.8)
    assert noise_floor([0.0, 1.0, 1.0]) == 0.0
    # Three at .5: 0..3 right with 1, 3, 3, 1 eighths, off by 1.5, .5, .5, 1.5.
    assert noise_floor([0.5] * 3) == pytest.approx((2 * 1.5 + 6 * 0.5) / 8 / 3)


@pytest.mark.parametrize("chance", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("variance", [0.5, 4, 9.9, 10.1, 30])
def test_noise_floor_of_a_binomial(chance, variance):
    n = int(variance / (chance * (1 - chance))) + 1
    counts = np.arange(n + 1)
    exact = binom.pmf(counts, n, chance) @ np.abs(counts - n * chance) / n
    assert noise_floor(np.full(n, chance)) == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("n", [40, 1500])
def test_noise_floor_by_simulation(n):
    rng = np.random.default_rng(n)
    confidence = rng.random(n)
    values = [ece(rng.random(n) < confidence, confidence) for _ in range(800)]
    assert abs(noise_floor(confidence) - np.mean(values)) < 4 * np.std(values) / np.sqrt(800)


def test_excess_of_a_calibrated_model_is_about_zero():
    rng = np.random.default_rng(5)
    confidence = rng.random((200, 100))
    values = [excess_ece(rng.random(100) < p, p) for p in confidence]
    assert np.mean(values) == pytest.approx(0, abs=4 * np.std(values) / np.sqrt(200))


def test_kde_by_direct_sums():
    rng = np.random.default_rng(3)
    confidence = rng.beta(5, 2, 300)
    correct = rng.random(300) < confidence**1.5
    x = np.linspace(-0.6, 1.6, 2**14)
    x = x[(x > 0) & (x < 1)]
    h = confidence[correct].std() * 600**-0.2

    def density(points):
        image = np.where(points < 0.5, -points, 2 - points)
        u = (x[:, None] - np.concatenate([points, image])) / (3 * h)
        return 2 * (35 / 32 * np.clip(1 - u**2, 0, None) ** 3 / (3 * h)).mean(axis=1)

    right, both = density(confidence[correct]), density(confidence)
    with np.errstate(invalid="ignore", divide="ignore"):
        smooth = np.minimum(correct.mean() * right / both, 1)
    gap = np.where(np.maximum(right, both) > 1e-6, np.abs(x - smooth) * both, 0)
    expected = np.trapezoid(gap, x) / np.trapezoid(both, x)
    # Linear binning on the grid differs from exact kernel sums by about 1e-9.
    assert kde_ece(correct, confidence) == pytest.approx(expected, abs=1e-7)


def test_kde_without_right_samples():
    correct, weight = np.array([True, False, False]), [0, 1, 1]
    assert kde_ece(correct, [0.9, 0.6, 0.8], sample_weight=weight) == pytest.approx(0.7)


def test_kde_of_equal_confidences():
    # All mass within 3e-3 of .6, where the accuracy is 3/4.
    correct = np.array([True, True, True, False])
    assert kde_ece(correct, np.full(4, 0.6)) == pytest.approx(0.15, abs=1e-3)
