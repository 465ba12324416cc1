"""The drift test: values by hand, delay and false-alert rate."""

import numpy as np
import pytest
from scipy.stats import binom

from wildcal.core.arrays import N_CONFIDENCE_BINS as N_BINS
from wildcal.core.profile import Profile
from wildcal.monitor.drift import BLOCK, DriftTest, _factors


def profile(rng, p_bins, p_classes, n=1000):
    return Profile(
        n_samples=n,
        accuracy=0.8,
        class_counts=rng.multinomial(n, p_classes),
        histogram=rng.multinomial(n, p_bins),
        atc_threshold=0.5,
    )


BINS = np.diff(np.linspace(0, 1, N_BINS + 1) ** 3)
CLASSES = np.array([0.4, 0.3, 0.2, 0.1])


def test_factors_are_fair_at_the_ends_of_the_interval():
    """E[factor] is 1 at the end of the Clopper-Pearson interval, and less inside."""
    n, k, level, steps = 50, 20, 0.01, np.array([0.5, 2.0])
    factors = _factors(np.array([k]), n, level, steps)[:, 0]
    grid = np.linspace(0, 1, 100_001)
    low = grid[np.argmin(np.abs(binom.sf(k - 1, n, grid) - level))]
    high = grid[np.argmin(np.abs(binom.cdf(k, n, grid) - level))]
    for p, bets in ((high, slice(0, 2)), (low, slice(2, 4))):
        mean = (1 - p) * factors[0, bets] + p * factors[1, bets]
        np.testing.assert_allclose(mean, 1, atol=1e-3)
    middle = 0.6 * factors[0] + 0.4 * factors[1]
    assert (middle < 1).all()


def test_no_bets_against_proportions_of_0_and_1():
    factors = _factors(np.array([0, 50]), 50, 0.01, np.array([1.0]))
    assert (factors[:, 0, 1] == 1).all()  # less often than never
    assert (factors[:, 1, 0] == 1).all()  # more often than always


def test_wealth_by_hand():
    rng = np.random.default_rng(0)
    given = profile(rng, BINS, CLASSES)
    test = DriftTest(given, 0.01)
    bins, classes = rng.choice(N_BINS, 3 * BLOCK, p=BINS), rng.choice(4, 3 * BLOCK, p=CLASSES)
    state = test.start()
    assert test.update(state, bins, classes, 100) == []
    level = 0.005 / (2 * (N_BINS - 1 + 4))
    confidence = _factors(
        np.cumsum(given.histogram)[:-1], 1000, level, np.array([0.2, 0.5, 1.2, 3.0])
    )
    of_class = _factors(given.class_counts, 1000, level, np.array([1.0, 3.0]))
    expected = [np.zeros((N_BINS - 1, 8)), np.zeros((4, 4))]
    for t in range(3):
        part = slice(t * BLOCK, (t + 1) * BLOCK)
        for wealth in expected:
            wealth += 1 / ((t + 1) * (t + 2))
        for b, c in zip(bins[part], classes[part], strict=True):
            inside = np.arange(N_BINS - 1) >= b
            expected[0] *= np.where(inside[:, None], confidence[1], confidence[0])
            expected[1] *= np.where((np.arange(4) == c)[:, None], of_class[1], of_class[0])
    np.testing.assert_allclose(state.confidence, expected[0].ravel(), rtol=1e-9)
    np.testing.assert_allclose(state.classes, expected[1], rtol=1e-9)
    wealth = (expected[0].mean() + expected[1].mean()) / 2
    assert state.e_value == pytest.approx(wealth + 1 / 4)
    assert test.limit == 200


def test_splitting_the_samples_changes_nothing():
    rng = np.random.default_rng(1)
    test = DriftTest(profile(rng, BINS, CLASSES), 0.01)
    bins = np.concatenate([rng.choice(N_BINS, 200, p=BINS), rng.choice(N_BINS, 300)])
    classes = rng.choice(4, 500, p=CLASSES)
    whole = test.start()
    alerts = test.update(whole, bins, classes, 50)
    assert alerts
    for cuts in ([1, 2, 3, 9, 16, 17, 400], list(range(1, 500)), [8, 16, 24]):
        state, found = test.start(), []
        for b, c in zip(np.split(bins, cuts), np.split(classes, cuts), strict=True):
            found += test.update(state, b, c, 50)
        assert found == alerts
        np.testing.assert_allclose(state.confidence, whole.confidence)
        assert state.n_samples == 500


def test_an_alert_lasts_while_it_is_repeated_and_ends_after_two_quiet_windows():
    rng = np.random.default_rng(2)
    test = DriftTest(profile(rng, BINS, CLASSES), 0.01)
    state = test.start()
    (began,) = test.update(state, np.zeros(400, int), rng.choice(4, 400, p=CLASSES), 50)
    assert 8 <= began <= 64
    assert state.is_alert(400, 50)
    last = state.last
    test.update(state, rng.choice(N_BINS, 300, p=BINS), rng.choice(4, 300, p=CLASSES), 50)
    assert state.last <= last + 50
    assert not state.is_alert(state.n_samples, 50)
    assert state.n_alerts == 1


@pytest.mark.parametrize("shifted", ["class", "confidence"])
def test_a_late_shift_is_found_soon(shifted):
    rng = np.random.default_rng(3)
    test = DriftTest(profile(rng, BINS, CLASSES, 3000), 0.01)
    p_bins, p_classes = BINS, CLASSES
    if shifted == "class":
        p_classes = CLASSES[::-1]
    else:
        p_bins = np.full(N_BINS, 1 / N_BINS)
    bins = np.concatenate([rng.choice(N_BINS, 20_000, p=BINS), rng.choice(N_BINS, 500, p=p_bins)])
    classes = np.concatenate([rng.choice(4, 20_000, p=CLASSES), rng.choice(4, 500, p=p_classes)])
    (began,) = test.update(test.start(), bins, classes, 400)
    assert 20_000 < began < 20_200


def test_merged_wealth_is_the_mean():
    rng = np.random.default_rng(4)
    test = DriftTest(profile(rng, BINS, CLASSES), 0.01)
    a, b = test.start(), test.start()
    test.update(a, rng.choice(N_BINS, 100), rng.choice(4, 100), 50)
    test.update(b, rng.choice(N_BINS, 40, p=BINS), rng.choice(4, 40, p=CLASSES), 50)
    both = a.merged(b)
    np.testing.assert_allclose(both.classes, (a.classes + b.classes) / 2)
    assert both.n_samples == 140
    assert both.is_alert(140, 50) == a.is_alert(100, 50) is True


@pytest.mark.slow
def test_false_alert_rate():
    """Of 400 calibration sets of 200 samples, each with a stream of 20,000, few raise an alert.

    With a rate of 0.1, more than 52 of 400 have a probability of 3 %.
    """
    rng = np.random.default_rng(5)
    n_alerts = 0
    for _ in range(400):
        test = DriftTest(profile(rng, BINS, CLASSES, 200), 0.1)
        bins, classes = rng.choice(N_BINS, 20_000, p=BINS), rng.choice(4, 20_000, p=CLASSES)
        n_alerts += bool(test.update(test.start(), bins, classes, 400))
    assert n_alerts <= 52
