"""Beta calibration: the constrained maximum, its three families, known parameters."""

import numpy as np
import pytest
from scipy.optimize import minimize

from wildcal.calibrators import BetaCalibration
from wildcal.calibrators.beta import PARAMETERS, apply_beta, fit_beta
from wildcal.testing import make_suite

# a, b and c trade off against each other, so known answers are compared as maps.
GRID = np.linspace(0.1, 0.99, 90)


def log_loss(p, target, abc):
    q = apply_beta(p, *abc)
    return -np.mean(np.log(np.where(target, q, 1 - q)))


def test_recovers_known_parameters():
    rng = np.random.default_rng(0)
    p = rng.beta(2, 1, 60_000)
    target = rng.random(60_000) < apply_beta(p, 1.5, 0.6, -0.3)
    abc, before, solution = fit_beta(p, target, None)
    np.testing.assert_allclose(apply_beta(GRID, *abc), apply_beta(GRID, 1.5, 0.6, -0.3), atol=0.01)
    assert solution.value < before


def test_identity_on_calibrated_scores():
    rng = np.random.default_rng(0)
    p = rng.beta(2, 1, 60_000)
    abc, _, _ = fit_beta(p, rng.random(60_000) < p, None)
    np.testing.assert_allclose(apply_beta(GRID, *abc), GRID, atol=0.01)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_lowest_loss_under_the_constraints(seed, parameters):
    """Random outcomes push the maximum against each bound in turn; SciPy finds no lower loss."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.2, 0.999, 60)
    target = rng.random(60) < rng.choice([0.2, 0.9]) * (p if seed % 2 else 1 - p)
    abc, _, solution = fit_beta(p, target, None, parameters)
    assert min(abc[:2]) >= 0
    assert solution.value == pytest.approx(log_loss(p, target, abc), rel=1e-9)
    log2 = np.log(2)
    expand = {
        "abm": lambda x: x,
        "am": lambda x: (x[0], x[0], x[2]),
        "ab": lambda x: (x[0], x[1], log2 * (x[0] - x[1])),
    }[parameters]
    theirs = minimize(
        lambda x: log_loss(p, target, expand(x)), [1, 1, 0], bounds=[(0, 50), (0, 50), (-50, 50)]
    )
    assert solution.value <= theirs.fun + 1e-9


def test_families():
    suite = make_suite(0, n_ood_tuning=0)
    full, am, ab = (BetaCalibration(parameters=p).fit(*suite.tuning) for p in PARAMETERS)
    assert am.a_ == am.b_
    assert ab._map(np.array([0.5]))[0] == pytest.approx(0.5)
    assert full.fit_.loss_after <= min(am.fit_.loss_after, ab.fit_.loss_after)


def test_monotone_up_to_the_ends():
    fitted = BetaCalibration().fit(*make_suite(0, n_ood_tuning=0).tuning)
    s = np.concatenate([[0.0], np.geomspace(1e-300, 0.5, 50), 1 - np.geomspace(0.5, 1e-17, 50)])
    q = fitted._map(s)
    assert (np.diff(q) >= 0).all()
    assert q[0] >= 0
    assert q[-1] <= 1


def test_separable_rows_stay_finite():
    p = np.linspace(0.3, 0.99, 40)
    for target in (p > 0.6, p < 0.6):
        abc, _, _ = fit_beta(p, target, None)
        assert np.isfinite(abc).all()
        assert np.isfinite(apply_beta(np.array([0.0, 0.5, 1.0]), *abc)).all()


def test_options_and_files():
    suite = make_suite(0, n_ood_tuning=0)
    with pytest.raises(ValueError, match="parameters must be one of 'abm', 'am', 'ab'"):
        BetaCalibration(parameters="abc").fit(*suite.tuning)
    fitted = BetaCalibration().fit(*suite.tuning)
    fitted._check_fitted()
    fitted.c_ = 1e300
    with pytest.raises(ValueError, match="at most"):
        fitted._check_fitted()
    fitted.a_ = -0.1
    with pytest.raises(ValueError, match="must not be negative"):
        fitted._check_fitted()
