"""The reference profile, by hand."""

import warnings

import numpy as np
import pytest

from wildcal.calibrators.identity import Identity
from wildcal.io.artifact import encode


def profile_of(confidence, predicted, correct):
    """Return the profile of samples of three classes with given top probabilities."""
    rows = [(1 - c) / 2 * np.ones(3) for c in confidence]
    for row, c, k in zip(rows, confidence, predicted, strict=True):
        row[k] = c
    y = np.where(correct, predicted, (np.array(predicted) + 1) % 3)
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a true class may have a logit of -inf
        return Identity().fit(np.log(rows), y).profile_


def test_by_hand():
    profile = profile_of([0.55, 0.65, 0.95, 0.999], [1, 0, 1, 1], [True, False, True, True])
    assert profile.n_samples == 4
    assert profile.accuracy == 0.75
    np.testing.assert_array_equal(profile.class_counts, [1, 3, 0])
    expected = np.zeros(20, int)
    expected[[11, 13, 19]] = 1, 1, 2
    np.testing.assert_array_equal(profile.histogram, expected)
    # One of four is wrong, and one confidence lies below the threshold.
    assert profile.atc_threshold == pytest.approx(0.65)


@pytest.mark.parametrize(("correct", "threshold"), [(True, 0.5), (False, 1.0)])
def test_all_right_and_all_wrong(correct, threshold):
    profile = profile_of([0.5, 0.75, 0.875], [0, 0, 0], [correct] * 3)
    assert profile.accuracy == float(correct)
    assert profile.atc_threshold == pytest.approx(threshold)


def test_it_describes_the_source_samples_of_a_fit():
    z = np.log([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.5], [0.3, 0.7]])
    fitted = Identity().fit(z[:4], [0, 1, 1, 0], domain=[0, 0, 0, 1])
    assert fitted.profile_.n_samples == 3
    assert fitted.profile_.accuracy == pytest.approx(2 / 3)
    np.testing.assert_array_equal(fitted.profile_.class_counts, [2, 1])
    assert fitted.profile_.atc_threshold == pytest.approx(0.8)
    fitted = Identity().fit([0.9, 0.2, 0.6], [True, False, False], input="confidence")
    assert fitted.profile_.accuracy == pytest.approx(1 / 3)
    assert fitted.profile_.histogram[[18, 4, 12]].tolist() == [1, 1, 1]


def test_tied_confidences():
    rng = np.random.default_rng(0)
    confidence = rng.choice([0.6, 0.8, 1 - 1e-9], 500)
    profile = profile_of(confidence, [0] * 500, rng.random(500) < confidence - 0.15)
    assert profile.above_threshold(confidence).mean() == pytest.approx(profile.accuracy)
    assert 0 < profile.atc_tie_share < 1


def test_a_weight_of_two_repeats_the_sample():
    rng = np.random.default_rng(0)
    z, y, w = rng.normal(size=(90, 3)).round(1), rng.integers(3, size=90), rng.integers(4, size=90)
    repeated = np.repeat(np.arange(90), w)
    weighted = Identity().fit(z, y, sample_weight=w).profile_
    assert encode(weighted) == encode(Identity().fit(z[repeated], y[repeated]).profile_)


def test_files_without_ties_are_as_before():
    fitted = Identity().fit([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], [0, 1, 1])
    assert "atc_tie_share" not in encode(fitted)["profile_"]
    assert encode(fitted)["profile_"]["atc_threshold"] == pytest.approx(0.8808, abs=1e-4)
