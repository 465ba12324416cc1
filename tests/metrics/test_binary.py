"""Metrics of two classes: by hand, and against a general optimizer."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.metrics import (
    METRICS,
    binary_ece,
    bootstrap_ci,
    calibration_intercept,
    calibration_slope,
    nll,
    spiegelhalter_z,
)
from wildcal.metrics._scores import check_scores


def two(p):
    p = np.asarray(p, dtype=float)
    return np.column_stack([1 - p, p])


def sample(n=2000, slope=0.6, shift=-0.4, seed=0):
    """Return labels whose true log-odds are shift + slope x, and the probabilities expit(x)."""
    rng = np.random.default_rng(seed)
    x = 2 * rng.normal(size=n)
    y = (rng.random(n) < expit(shift + slope * x)).astype(int)
    return x, y, two(expit(x))


def test_spiegelhalter_by_hand():
    top = (1 - 0.8) * (1 - 1.6) + (0 - 0.3) * (1 - 0.6)
    below = np.sqrt(0.36 * 0.16 + 0.16 * 0.21)
    assert spiegelhalter_z([1, 0], two([0.8, 0.3])) == pytest.approx(top / below)


def test_spiegelhalter_is_standard_normal_for_calibrated_probabilities():
    rng = np.random.default_rng(3)
    p = rng.beta(2, 3, (400, 300))
    z = [spiegelhalter_z((rng.random(300) < q).astype(int), two(q)) for q in p]
    assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.03)


def test_binary_ece_is_of_class_1():
    p = np.array([0.1] * 50 + [0.9] * 50)
    y = np.array([1] * 5 + [0] * 45 + [1] * 40 + [0] * 10)
    assert binary_ece(y, two(p)) == pytest.approx(0.05)


@pytest.mark.parametrize("factor", [0.1, 1.0, 3.0, 30.0, -3.0])
def test_slope_and_intercept_maximize_the_likelihood(factor):
    x, y, _ = sample()
    p = np.clip(expit(factor * x), 1e-12, 1 - 1e-12)
    logits = np.log(p) - np.log1p(-p)

    def loss(line):
        t = line[0] + line[1] * logits
        return np.logaddexp(0, t).sum() - (y * t).sum()

    best = minimize(loss, [0.0, 0.0], options={"gtol": 1e-6}).x
    assert calibration_slope(y, two(p)) == pytest.approx(best[1], rel=1e-4)
    alone = minimize(lambda a: loss([a[0], 1.0]), [0.0]).x
    assert calibration_intercept(y, two(p)) == pytest.approx(alone[0], abs=1e-3)


def test_slope_of_hard_predictions():
    # logit(p) is +-27.6 (p is clipped to 1e-12) and three of four are right: +-log(3).
    p, y = [1.0] * 4 + [0.0] * 4, [1, 1, 1, 0, 0, 0, 0, 1]
    expected = np.log(3) / -np.log(1e-12)
    assert calibration_slope(y, two(p)) == pytest.approx(expected, rel=1e-6)


def test_samples_without_weight_have_no_influence():
    p, y, weight = [0.9, 0.6, 0.3, 0.8], [1, 1, 1, 0], [1, 1, 2, 0]
    for metric in (calibration_slope, calibration_intercept):
        with pytest.warns(CalibrationWarning, match="not defined"):
            assert np.isnan(metric(y, two(p), sample_weight=weight))


def test_separated_classes_have_no_slope():
    for y in ([0, 0, 1], [1, 1, 1]):
        with pytest.warns(CalibrationWarning, match="not defined"):
            assert np.isnan(calibration_slope(y, two([0.1, 0.2, 0.9])))


def test_separated_replicates_have_the_steepest_slope():
    scores = check_scores([1, 1, 0, 0], two([0.9, 0.6, 0.7, 0.2]))
    weights = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0]], float).T
    values = METRICS["calibration_slope"].compute(scores, weights)
    assert values.tolist() == [100.0, -100.0, 100.0]
    assert METRICS["calibration_intercept"].compute(scores, weights)[2] == 100.0


@pytest.mark.slow
def test_slope_intervals_cover_the_truth():
    covered = []
    for seed in range(40):
        _, y, proba = sample(400, seed=seed)
        found = bootstrap_ci("calibration_slope", y, proba)
        covered.append(found.low < 0.6 < found.high)
    assert np.mean(covered) > 0.85


def test_three_classes_are_refused():
    with pytest.raises(InputError, match="proba must have 2 columns, got 3"):
        binary_ece([0, 1], np.full((2, 3), 1 / 3))
    assert nll([0, 1], np.full((2, 3), 1 / 3)) == pytest.approx(np.log(3))
