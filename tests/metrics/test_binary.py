"""Two classes: known answers by hand, and against fits and draws of another kind."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit

from wildcal import evaluate
from wildcal._old.metrics.binary import (
    calibration_intercept,
    calibration_slope,
    drawn_line,
    signed_rows,
    spiegelhalter_z,
)


def sample(n=2000, slope=0.6, shift=-0.4, seed=0):
    """Return signed probabilities of a model whose true log-odds are shift + slope * its own."""
    rng = np.random.default_rng(seed)
    x = 2 * rng.normal(size=n)
    y = rng.random(n) < expit(shift + slope * x)
    return x, y, np.copysign(expit(x), np.where(y, 1.0, -1.0))


def test_by_hand():
    column = np.array([0.8, -0.3])  # class 1 with p = 0.8, class 0 with p = 0.3
    top = (1 - 0.8) * (1 - 1.6) + (0 - 0.3) * (1 - 0.6)
    below = np.sqrt(0.36 * 0.16 + 0.16 * 0.21)
    assert spiegelhalter_z(column) == pytest.approx(top / below)


def test_the_line_of_the_likelihood():
    x, y, column = sample()

    def loss(line):
        return np.logaddexp(0, line[0] + line[1] * x).sum() - (y * (line[0] + line[1] * x)).sum()

    best = minimize(loss, [0.0, 1.0]).x
    assert calibration_slope(column) == pytest.approx(best[1], abs=1e-4)
    alone = minimize(lambda a: loss([a[0], 1.0]), [0.0]).x
    assert calibration_intercept(column) == pytest.approx(alone[0], abs=1e-4)


@pytest.mark.parametrize("factor", [0.1, 1.0, 2.5, 3.0, 4.0, 6.0, 30.0, -3.0])
def test_the_slope_of_models_that_are_far_too_sure(factor):
    # Whole steps of Newton go round in circles there, and were back where they started.
    x, y, _ = sample(slope=1.0, shift=0.0)
    p = np.clip(expit(factor * x), 1e-12, 1 - 1e-12)
    logits = np.log(p) - np.log1p(-p)

    def loss(line):
        at = line[0] + line[1] * logits
        return np.logaddexp(0, at).sum() - (y * at).sum()

    best = minimize(loss, [0.0, 0.0], options={"gtol": 1e-7}).x
    assert calibration_slope(np.copysign(p, np.where(y, 1.0, -1.0))) == pytest.approx(
        best[1], rel=1e-4
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_intercept_of_certain_answers(seed):
    """A tree says 0 or 1: far from the answer no row has a slope that could lead there."""
    rng = np.random.default_rng(seed)
    y = rng.random(300) < 0.4
    p = np.where(y, rng.random(300) > 0.1, rng.random(300) < 0.1).astype(float)
    at = np.clip(p, 1e-12, 1 - 1e-12)
    x = np.log(at) - np.log1p(-at)
    wanted = brentq(lambda a: expit(a + x).sum() - y.sum(), -100, 100, xtol=1e-12)
    found = calibration_intercept(np.copysign(p, np.where(y, 1.0, -1.0)))
    assert found == pytest.approx(wanted, abs=1e-6)


def test_samples_without_a_line_get_the_steepest():
    column = np.array([0.9, 0.6, -0.7, -0.2])  # class 1 at 0.9 and 0.6, class 0 at 0.7 and 0.2
    counts = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0]], float).T
    assert drawn_line(column, counts, free=True).tolist() == [100.0, -100.0, 100.0]
    assert drawn_line(column, counts, free=False)[2] == 100.0
    assert drawn_line(column, np.array([[0.0], [0], [1], [1]]), free=False).tolist() == [-100.0]


def test_a_resample_has_the_fit_of_its_rows():
    _, _, column = sample()
    rng = np.random.default_rng(1)
    for free, own in ((True, calibration_slope), (False, calibration_intercept)):
        for _ in range(5):
            rows = rng.integers(0, len(column), len(column))
            counts = np.bincount(rows, minlength=len(column)).astype(float)[:, None]
            assert drawn_line(column, counts, free=free)[0] == pytest.approx(
                own(column[rows]), abs=1e-9
            )


def test_calibrated_probabilities_pass_the_test():
    rng = np.random.default_rng(3)
    passed = []
    for _ in range(400):
        p = rng.beta(2, 3, 300)
        z = spiegelhalter_z(np.copysign(p, np.where(rng.random(300) < p, 1.0, -1.0)))
        passed.append(abs(z) < 1.96)
    assert np.mean(passed) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("y", [[1, 1, 1], [0, 0, 1]])
def test_no_line_where_one_class_is_missing_or_all_is_told_apart(y):
    proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]])
    column = signed_rows(np.array(y), proba, proba.argmax(axis=1))
    assert np.isnan(calibration_slope(column))
    assert (
        "calibration_slope"
        not in evaluate(y, proba, metrics=["calibration_slope"], n_boot=0).estimates
    )


def test_certain_probabilities_keep_their_label():
    proba = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    column = signed_rows(np.array([0, 1, 0]), proba, proba.argmax(axis=1))
    assert np.signbit(column).tolist() == [True, False, True]


def test_intervals_hold_the_truth():
    held = []
    for seed in range(40):
        x, y, _ = sample(400, seed=seed)
        proba = np.column_stack([expit(-x), expit(x)])
        e = evaluate(y.astype(int), proba, metrics=["calibration_slope"], n_boot=200)
        found = e.estimates["calibration_slope"]
        held.append(found.low < 0.6 < found.high)
    assert np.mean(held) > 0.85


def test_ece_of_class_1_sees_both_halves():
    p = np.array([0.1] * 50 + [0.9] * 50)
    y = np.array([1] * 5 + [0] * 45 + [1] * 40 + [0] * 10)
    proba = np.column_stack([1 - p, p])
    found = evaluate(y, proba, metrics=["positive_ece"], n_boot=0).estimates
    assert found["positive_ece"].value == pytest.approx(0.05)
