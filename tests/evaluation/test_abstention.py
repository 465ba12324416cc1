"""`abstention_threshold`: the stated probability, ties, and samples that are too few."""

import math

import numpy as np
import pytest
from scipy.stats import beta

from wildcal import abstention_threshold


def draw(n, seed):
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1, n)
    return rng.random(n) < confidence, confidence


@pytest.mark.parametrize("n", [500, 3000])
def test_true_error_rate_is_kept_with_the_stated_probability(n):
    violated = 0
    for seed in range(200):
        correct, confidence = draw(n, seed)
        found = abstention_threshold(correct, confidence, max_error=0.1, level=0.9)
        answered = confidence >= found.threshold
        violated += answered.any() and (1 - confidence[answered]).mean() > 0.1
    assert violated <= 200 * 0.1 + 8


def test_numbers_belong_to_the_threshold():
    correct, confidence = draw(5000, 0)
    found = abstention_threshold(correct, confidence, max_error=0.1)
    answered = confidence >= found.threshold
    assert found.n_answered == answered.sum()
    assert found.coverage == pytest.approx(answered.mean())
    assert found.error_rate == pytest.approx(1 - correct[answered].mean())
    k, m = (~correct[answered]).sum(), answered.sum()
    assert found.error_bound == pytest.approx(beta.ppf(0.975, k + 1, m - k))
    assert found.error_bound <= 0.1
    assert float(found) == found.threshold


def test_too_few_samples_certify_nothing():
    found = abstention_threshold(np.ones(20, bool), np.full(20, 0.9))
    assert math.isinf(found.threshold)
    assert (found.coverage, found.error_bound) == (0, 1)
    assert found.to_dict()["threshold"] is None


def test_equal_confidences_are_answered_together():
    correct = np.arange(2000) % 50 > 0
    found = abstention_threshold(correct, np.full(2000, 0.7))
    assert (found.threshold, found.coverage) == (0.7, 1)
