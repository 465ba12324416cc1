"""Intervals: coverage, pairing, weights."""

import numpy as np
import pytest

from wildcal.core.exceptions import InputError
from wildcal.metrics import Estimate, bootstrap_ci, ece, excess_ece, noise_floor, paired_difference
from wildcal.metrics._scores import check_scores
from wildcal.metrics.bootstrap import draw_weights


def draw(n, offset, seed):
    """Return samples whose accuracy is `offset` below the confidence."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.3, 1, n)
    return rng.random(n) < confidence - offset, confidence


@pytest.mark.parametrize("offset", [0.0, 0.1])
@pytest.mark.parametrize("metric", ["ece", "adaptive_ece", "classwise_ece", "debiased_l2_ce"])
def test_intervals_cover_the_true_error(metric, offset):
    kind = _two if metric == "classwise_ece" else lambda *sample: sample
    found = [bootstrap_ci(metric, *kind(*draw(600, offset, seed))) for seed in range(60)]
    assert np.mean([e.low <= offset <= e.high for e in found]) >= 0.8


def test_accuracy_interval_covers_the_truth():
    covered = []
    for seed in range(60):
        correct = np.random.default_rng(seed).random(500) < 0.8
        found = bootstrap_ci("accuracy", correct, np.full(500, 0.8), seed=seed)
        covered.append(found.low <= 0.8 <= found.high)
    assert np.mean(covered) >= 0.87


def test_verdict_of_calibrated_and_overconfident_models():
    verdicts = [bootstrap_ci("ece", *draw(1000, 0, seed)).verdict for seed in range(40)]
    assert verdicts.count("within noise") >= 36
    assert bootstrap_ci("ece", *draw(1000, 0.1, 0)).verdict == "above noise floor"


def test_ece_has_its_floor_and_excess_has_the_interval():
    correct, confidence = draw(800, 0.1, 1)
    raw = bootstrap_ci("ece", correct, confidence)
    excess = bootstrap_ci("excess_ece", correct, confidence)
    assert raw.value == ece(correct, confidence)
    assert raw.floor == noise_floor(confidence)
    assert raw.excess == excess.value == excess_ece(correct, confidence)
    assert (excess.low, excess.high) == pytest.approx((min(raw.low, excess.value), raw.high))
    assert float(raw) == raw.value


def test_paired_interval_is_narrower_than_two():
    correct, confidence = draw(1500, 0, 2)
    worse = confidence**1.2
    found = paired_difference("nll", *(_two(correct, p) for p in (confidence, worse)))
    single = bootstrap_ci("nll", *_two(correct, worse))
    assert found.high - found.low < (single.high - single.low) / 2
    assert found.is_significant
    assert found.value < 0


def _two(correct, p):
    return correct.astype(int), np.column_stack([1 - p, p])


def test_pairs_must_be_the_same_samples():
    correct, confidence = draw(100, 0, 2)
    with pytest.raises(InputError, match="b must have the samples of a"):
        paired_difference("ece", (correct, confidence), (correct[:50], confidence[:50]))


def test_draws_keep_the_numbers_of_both_kinds():
    y = np.array([0] * 30 + [-1] * 10)
    scores = check_scores(y, np.full((40, 2), 0.5))
    (weights,) = draw_weights(scores, 20)
    assert weights.shape == (40, 20)
    assert (weights[:30].sum(axis=0) == 30).all()
    assert (weights[30:].sum(axis=0) == 10).all()


def test_weighted_draws_follow_the_counts():
    scores = check_scores(np.ones(3, bool), np.full(3, 0.5), [1, 2, 7])
    (weights,) = draw_weights(scores, 2000)
    assert (weights.sum(axis=0) == 10).all()
    np.testing.assert_allclose(weights.mean(axis=1), [1, 2, 7], atol=0.15)


def test_same_seed_same_interval():
    samples = draw(200, 0, 0)
    assert bootstrap_ci("ece", *samples) == bootstrap_ci("ece", *samples)
    assert bootstrap_ci("ece", *samples) != bootstrap_ci("ece", *samples, seed=1)


def test_an_estimate_without_interval():
    assert Estimate(0.3).interval is None
    assert Estimate(0.3).verdict is None
    assert Estimate(0.3, floor=0.1).verdict == "above noise floor"
