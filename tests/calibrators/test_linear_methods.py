"""Vector, matrix, Dirichlet and structured scaling: known answers, limits, hostile values."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from wildcal import TemperatureScaling, softmax
from wildcal.calibrators import (
    CALIBRATORS,
    DirichletCalibration,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureMix,
    VectorScaling,
    linear_softmax,
    make_calibrator,
)
from wildcal.core.errors import ConvergenceWarning
from wildcal.testing import make_suite

SUITE = make_suite(0, n_tuning=1000, n_ood_tuning=0)
NAMES = ["vector", "matrix", "dirichlet", "svs", "sms"]


def draw(scores, rng):
    """Labels from softmax(scores): the largest of the scores plus Gumbel noise."""
    return (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def test_vector_scaling_recovers_scale_and_intercept():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (100_000, 4))
    scale, intercept = np.array([0.5, 1.0, 1.5, 0.8]), np.array([0.6, -0.2, 0.0, -0.4])
    fitted = VectorScaling(ridge=0).fit(z, draw(z * scale + intercept, rng))
    np.testing.assert_allclose(fitted.scale_, scale, atol=0.03)  # standard errors about 0.008
    off = fitted.intercept_ - intercept  # a common constant changes no probability
    np.testing.assert_allclose(off - off.mean(), 0, atol=0.06)


def test_matrix_scaling_recovers_the_matrix():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, (100_000, 3))
    matrix = np.array([[1.0, 0.4, 0.0], [-0.3, 0.7, 0.0], [0.0, 0.2, 1.2]])
    intercept = np.array([0.5, -0.5, 0.0])
    fitted = MatrixScaling(reg_lambda=0, reg_mu=0, ridge=0).fit(
        z, draw(z @ matrix.T + intercept, rng)
    )
    # rows of W are known up to a common row
    np.testing.assert_allclose(
        fitted.matrix_ - fitted.matrix_.mean(axis=0), matrix - matrix.mean(axis=0), atol=0.04
    )
    off = fitted.intercept_ - intercept
    np.testing.assert_allclose(off - off.mean(), 0, atol=0.04)


def test_dirichlet_recovers_the_map_of_log_probabilities():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, (100_000, 3))
    matrix = np.array([[1.0, 0.3, 0.0], [0.0, 0.7, 0.0], [0.2, 0.0, 1.3]])
    y = draw(log_softmax(z, axis=1) @ matrix.T + [0.3, 0.0, -0.3], rng)
    fitted = DirichletCalibration(reg_lambda=0, reg_mu=0, ridge=0).fit(z, y)
    np.testing.assert_allclose(
        fitted.matrix_ - fitted.matrix_.mean(axis=0), matrix - matrix.mean(axis=0), atol=0.06
    )


@pytest.mark.parametrize("method", [StructuredVectorScaling, StructuredMatrixScaling])
def test_structured_scaling_is_temperature_mix_where_the_ridge_is_strong(method):
    fitted = method(ridge=1e9).fit(*SUITE.tuning)
    mixed = TemperatureMix().fit(*SUITE.tuning)
    np.testing.assert_allclose(
        fitted.predict_proba(SUITE.clean.logits), mixed.predict_proba(SUITE.clean.logits), atol=1e-5
    )


@pytest.mark.parametrize(
    "method",
    [VectorScaling(ridge=1e9), MatrixScaling(ridge=1e9, reg_lambda=1e9, reg_mu=1e9)],
    ids=lambda method: method.name,
)
def test_a_strong_ridge_leaves_temperature_scaling(method):
    fitted, plain = method.fit(*SUITE.tuning), TemperatureScaling().fit(*SUITE.tuning)
    np.testing.assert_allclose(
        fitted.predict_proba(SUITE.clean.logits), plain.predict_proba(SUITE.clean.logits), atol=1e-5
    )


def test_a_pull_towards_one_would_hold_back_the_common_scale():
    """Why the ridge of vector scaling is centered at temperature scaling, not at v = 1."""
    logits, y = SUITE.tuning
    temperature = TemperatureScaling().fit(logits, y).temperature_
    strong = VectorScaling(ridge=100.0).fit(logits, y)
    np.testing.assert_allclose(strong.scale_, 1 / temperature, rtol=0.05)
    assert temperature > 1.3


@pytest.mark.parametrize("name", NAMES)
def test_better_than_temperature_scaling_where_classes_differ(name):
    rng = np.random.default_rng(3)
    z = rng.normal(0, 2, (6000, 5))
    y = draw(z * [0.3, 0.6, 1.0, 1.4, 0.8] + [1.0, 0, 0, -1.0, 0], rng)
    fitted, plain = (
        CALIBRATORS[name]().fit(z[:3000], y[:3000]),
        TemperatureScaling().fit(z[:3000], y[:3000]),
    )

    def nll(calibrator):
        return -np.log(calibrator.predict_proba(z[3000:])[np.arange(3000), y[3000:]]).mean()

    assert fitted.fit_.converged
    assert fitted.fit_.loss_after < fitted.fit_.loss_before
    assert nll(fitted) < nll(plain) - 0.02


@pytest.mark.parametrize("name", NAMES)
def test_both_solvers_give_the_same_calibrator(name, monkeypatch):
    logits, y = SUITE.tuning.logits.astype(np.float64), SUITE.tuning.y
    newton = CALIBRATORS[name]().fit(logits, y)
    monkeypatch.setattr(linear_softmax, "NEWTON_PARAMETERS", 0)
    lbfgs = CALIBRATORS[name]().fit(logits, y)
    np.testing.assert_allclose(
        lbfgs.predict_proba(logits[:500]), newton.predict_proba(logits[:500]), atol=1e-5
    )


@pytest.mark.parametrize("name", NAMES)
def test_many_classes_few_rows(name):
    """More parameters than numbers in the data; the ridge has to carry it."""
    suite = make_suite(1, n_classes=120, n_tuning=600, n_ood_tuning=0, n_test=2000)
    fitted = CALIBRATORS[name]().fit(*suite.tuning)
    plain = TemperatureScaling().fit(*suite.tuning)
    rows = np.arange(2000), suite.clean.y
    loss, base = (
        -np.log(c.predict_proba(suite.clean.logits)[rows]).mean() for c in (fitted, plain)
    )
    assert loss < 1.1 * base


def test_a_search_that_is_cut_short_warns(monkeypatch):
    monkeypatch.setattr(linear_softmax, "NEWTON_PARAMETERS", 0)
    monkeypatch.setattr(linear_softmax, "_PASSES", 1)
    monkeypatch.setattr(linear_softmax, "_FEWEST_PASSES", 1)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        fitted = MatrixScaling().fit(*SUITE.tuning)
    assert not fitted.fit_.converged


@pytest.mark.parametrize("name", NAMES)
def test_a_class_ruled_out_stays_ruled_out(name):
    logits, y = SUITE.tuning
    logits = logits.copy()
    rows = np.flatnonzero(y != 7)[:1000]
    logits[rows, 7] = -np.inf
    fitted = CALIBRATORS[name]().fit(logits, y)
    proba = fitted.predict_proba(logits)
    assert (proba[rows, 7] == 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_predicting_needs_little_more_than_its_result(name):
    fitted = CALIBRATORS[name]().fit(*SUITE.tuning)
    z = np.ones((300_000, 10), np.float32)
    tracemalloc.start()
    fitted.predict_proba(z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < z.nbytes + 8e6


@pytest.mark.parametrize("name", ["dirichlet", "svs", "sms"])
def test_methods_on_log_probabilities_do_not_see_a_shift(name):
    logits, y = SUITE.tuning.logits.astype(np.float64), SUITE.tuning.y
    shift = np.random.default_rng(0).normal(0, 5, (len(y), 1))
    plain, moved = CALIBRATORS[name]().fit(logits, y), CALIBRATORS[name]().fit(logits + shift, y)
    np.testing.assert_allclose(
        moved.predict_proba(logits - shift), plain.predict_proba(logits), atol=1e-7
    )


@pytest.mark.parametrize(("name", "n_classes"), [("vector", 5), ("matrix", 5), ("matrix", 25)])
def test_logits_far_from_zero_are_fitted_alike_in_float32_and_float64(name, n_classes):
    """Newton and L-BFGS; a search that stopped early would warn, which is an error here."""
    rng = np.random.default_rng(0)
    z = np.round(128 * rng.normal(size=(1500, n_classes))) / 64  # float32 keeps them at 10,000
    y = (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)
    told = []
    for dtype in (np.float32, np.float64):
        far = (z + 1e4).astype(dtype)
        fitted = make_calibrator(name).fit(far, y)
        told.append(fitted.predict_proba(far))
    np.testing.assert_allclose(told[0], told[1], atol=2e-6 if n_classes == 5 else 2e-3)
    # As at 1,000, where nobody's digits are lost: only the pull of the offsets still differs.
    nearer = make_calibrator(name).fit(z + 1e3, y).predict_proba(z + 1e3)
    np.testing.assert_allclose(told[1], nearer, atol=5e-3)


def test_the_last_gauge_depends_on_the_order_of_the_classes_and_the_free_one_does_not():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (150, 3))
    y = draw(z * [0.5, 1.0, 2.0], rng)
    order = np.array([2, 0, 1])

    def gap(gauge):
        options = {"gauge": gauge, "reg_lambda": 0.05, "reg_mu": 0.05}
        plain = DirichletCalibration(**options).fit(z, y)
        permuted = DirichletCalibration(**options).fit(z[:, order], np.argsort(order)[y])
        return np.abs(permuted.predict_proba(z[:, order]) - plain.predict_proba(z)[:, order]).max()

    assert gap("free") < 1e-8
    assert gap("last") > 1e-3


def test_the_free_gauge_leaves_plain_scaling_unpunished():
    """In the last gauge, or after subtracting column means, even the identity costs something."""
    fitted = DirichletCalibration(reg_lambda=1e6, reg_mu=1e6).fit(*SUITE.tuning)
    off_diagonal = fitted.matrix_[~np.eye(10, dtype=bool)]
    assert np.abs(off_diagonal).max() < 1e-6
    assert np.diag(fitted.matrix_).min() > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_impossible_fitted_values_are_refused(name):
    fitted = CALIBRATORS[name]().fit(*SUITE.tuning)
    fitted._check_fitted()
    for field in ("scale_", "matrix_", "intercept_"):
        if hasattr(fitted, field):
            good = getattr(fitted, field)
            setattr(fitted, field, good[:-1])
            with pytest.raises(ValueError, match=f"{field} must have shape"):
                fitted._check_fitted()
            setattr(fitted, field, good)


@pytest.mark.parametrize("method", [StructuredVectorScaling, StructuredMatrixScaling])
@pytest.mark.parametrize("change", [{"temperature_": 0.0}, {"uniform_": 0.0}, {"uniform_": 1.0}])
def test_impossible_mixtures_are_refused(method, change):
    fitted = method().fit(*SUITE.tuning)
    vars(fitted).update(change)
    with pytest.raises(ValueError, match=next(iter(change))):
        fitted._check_fitted()


@pytest.mark.parametrize(
    "method",
    [
        VectorScaling(ridge=-1.0),
        MatrixScaling(reg_lambda=-1.0),
        MatrixScaling(reg_mu=float("nan")),
        DirichletCalibration(regularizer="l1"),
        DirichletCalibration(gauge="first"),
        StructuredVectorScaling(ridge=float("inf")),
    ],
    ids=repr,
)
def test_options_are_checked(method):
    with pytest.raises(ValueError, match="must be"):
        method.fit(*SUITE.tuning)


def test_tied_vector_scaling_is_one_factor_and_offsets():
    """The definition, soft rows and all, minimized by brute force."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 3)) * 2
    y = (1.4 * z + [0.7, 0.0, -0.7] + rng.gumbel(size=z.shape)).argmax(1)
    fitted = VectorScaling(tied=True, prior=2.0).fit(z, y)
    own = softmax(z)
    soft = 2.0 / max((z.argmax(1) != y).sum(), (1 - own.max(1)).sum())

    def loss(x):
        log_q = np.log(softmax(x[0] * z + x[1:]))
        wanted = soft * own
        wanted[np.arange(300), y] += 1
        return -(wanted * log_q).sum() / 300 + 0.1 * 3 / 300 * (x[1:] ** 2).sum()

    best = minimize(loss, [1.0, 0, 0, 0], tol=1e-12).x
    np.testing.assert_allclose([fitted.scale_[0], *fitted.intercept_], best, atol=1e-5)
    assert len(set(fitted.scale_)) == 1
    with pytest.raises(ValueError, match="prior is for tied=True"):
        VectorScaling(prior=1.0).fit(z, y)
