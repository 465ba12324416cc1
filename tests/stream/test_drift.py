"""The drift test: distances by hand, and the rate of false alarms over many fits."""

import numpy as np
import pytest
from scipy.stats import binom, chi2

import wildcal
from wildcal._old.core.convert import softmax
from wildcal._old.stream.drift import DriftTest


def test_the_distance_by_hand():
    # S⁻¹ of correlation 0.5 is [[4, -2], [-2, 4]] / 3; n g'S⁻¹g = 100 (4 - 4 + 4) 0.01 / 3.
    test = DriftTest(0.5, 5000, 100, 0.01)
    assert test.score(100, np.array([0.1, 0.1])) == pytest.approx(np.sqrt(4 / 3))
    many = test.score(np.array([100.0, 400.0]), np.array([[0.1, 0.1], [0.1, 0.1]]))
    np.testing.assert_allclose(many, np.sqrt([4 / 3, 16 / 3]))


def test_with_endless_clean_rows_it_is_chi_squared():
    test = DriftTest(0.3, 10**12, 100, 0.01)
    assert test.threshold == pytest.approx(np.sqrt(chi2.isf(0.01, 2)))
    assert test.p_value(3.0) == pytest.approx(chi2.sf(9.0, 2))


def test_fewer_clean_rows_raise_the_threshold():
    thresholds = [DriftTest(0.3, n, 256, 0.01).threshold for n in (10**6, 5000, 500, 50)]
    assert thresholds == sorted(thresholds)
    test = DriftTest(0.3, 50, 256, 0.01)
    assert test.p_value(test.threshold) == pytest.approx(0.01)
    assert test.p_value(0.0) == 1.0
    assert test.p_value(1e6) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("correlation", [-1.0, 1.0])
def test_features_that_are_functions_of_each_other(correlation):
    test = DriftTest(correlation, 5000, 100, 0.01)
    assert np.isfinite(test.score(100, np.array([0.2, 0.1])))


@pytest.mark.parametrize("name", wildcal._old.suites.names("cifar10"))
@pytest.mark.parametrize(("window", "rate"), [(32, 0.05), (256, 0.01), (1024, 0.05)])
def test_false_alarms_over_200_fits(name, window, rate):
    """Each seed draws 5,000 clean rows to know and 20 windows of others, which are judged."""
    suite = wildcal._old.suites.load(name)
    z = np.concatenate([suite.split(s).logits for s in ("validation", "test")]).astype(np.float64)
    top = z.max(axis=1)
    energy = top + np.log(np.exp(z - top[:, None]).sum(axis=1))
    features = np.stack([energy, softmax(z / 1.5).max(axis=1)])
    alarms = 0
    for seed in range(200):
        order = np.random.default_rng(seed).permutation(len(z))
        known, rest = features[:, order[:5000]], features[:, order[5000:]]
        rows = np.random.default_rng(seed).integers(0, rest.shape[1], (20, window))
        scaled = (rest - known.mean(1, keepdims=True)) / known.std(1, keepdims=True)
        test = DriftTest(np.corrcoef(known)[0, 1], 5000, window, rate)
        alarms += int((test.score(window, scaled[:, rows].mean(-1)) > test.threshold).sum())
    assert binom.ppf(0.001, 4000, rate / 5) <= alarms <= binom.ppf(0.999, 4000, rate)
