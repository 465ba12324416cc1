"""The objective all linear methods share: exact derivatives, and one minimum for both solvers."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from wildcal.calibrators import linear_softmax, make_calibrator
from wildcal.calibrators.linear_map import (
    bound_linear,
    log_mixed_proba,
    log_proba,
    matrix_scores,
    raw_logits,
)
from wildcal.calibrators.linear_softmax import DiagonalSoftmax, FullSoftmax, LinearSoftmax, Penalty

KINDS = {DiagonalSoftmax: (2, 4), FullSoftmax: (5, 4)}


def problem(kind, n=60, k=4, dtype=np.float64):
    rng = np.random.default_rng(0)
    shape = (2, k) if kind is DiagonalSoftmax else (k + 1, k)
    z = rng.normal(0, 2, (n, k)).astype(dtype)
    y, weight = rng.integers(0, k, n), rng.uniform(0, 2, n)
    ridge, center = rng.uniform(0, 0.1, shape), rng.normal(0, 1, shape)
    return kind(raw_logits, z, y, weight, ridge, center), rng.normal(0, 0.5, shape)


@pytest.mark.parametrize("kind", KINDS)
def test_value_is_the_penalized_cross_entropy(kind):
    objective, theta = problem(kind)
    z, y, w = objective.logits, objective.y, objective.weight
    scores = theta[0] * z + theta[1] if kind is DiagonalSoftmax else z @ theta[:-1] + theta[-1]
    nll = -log_softmax(scores, axis=1)[np.arange(len(y)), y]
    penalty = (objective.ridge * (theta - objective.center) ** 2).sum()
    value = objective.evaluate(theta, hessian=False).value
    assert value == pytest.approx(np.average(nll, weights=w) + penalty, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_an_origin_changes_nothing_but_rounding(kind):
    """It is taken off the features, and comes back through the offsets."""
    objective, theta = problem(kind)
    objective.logits = objective.logits + 50
    plain = objective.evaluate(theta, hessian=True)
    objective.origin = 49.5
    moved = objective.evaluate(theta, hessian=True)
    assert moved.value == pytest.approx(plain.value, rel=1e-12)
    np.testing.assert_allclose(moved.gradient, plain.gradient, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moved.hessian, plain.hessian, rtol=1e-9, atol=1e-9)
    steps = objective._units(theta, None)
    tried = np.random.default_rng(2).normal(size=theta.shape)
    slope = (steps.gradient(plain.gradient.reshape(theta.shape)) * tried).sum()
    assert slope == pytest.approx(plain.gradient @ steps.theta(tried).ravel())
    whole = tried.ravel() @ steps.hessian(plain.hessian) @ tried.ravel()
    change = steps.theta(tried).ravel()
    assert whole == pytest.approx(change @ plain.hessian @ change)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_finite_differences(kind):
    objective, theta = problem(kind)
    at, step = objective.evaluate(theta, hessian=True), 1e-6
    for i in range(theta.size):
        unit = step * np.eye(theta.size)[i].reshape(theta.shape)
        up = objective.evaluate(theta + unit, hessian=False)
        down = objective.evaluate(theta - unit, hessian=False)
        slope = (up.value - down.value) / (2 * step)
        assert at.gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-8)
        curvature = (up.gradient - down.gradient) / (2 * step)
        np.testing.assert_allclose(at.hessian[i], curvature, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_the_diagonal_of_the_hessian(kind):
    objective, theta = problem(kind)

    def look(piece):
        spread = piece.proba * (1 - piece.proba) * piece.weight[:, None]
        return objective.second_diagonal(piece.x, spread)

    diagonal = 2 * objective.ridge + objective._walk(theta, look)
    hessian = objective.evaluate(theta, hessian=True).hessian
    np.testing.assert_allclose(diagonal.ravel(), np.diag(hessian), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_add_up(kind, monkeypatch):
    objective, theta = problem(kind)
    whole = objective.evaluate(theta, hessian=True)
    monkeypatch.setattr(linear_softmax, "_PIECE", 1)
    monkeypatch.setattr(linear_softmax, "_PIECE_ROWS", 7)
    cut = objective.evaluate(theta, hessian=True)
    assert cut.value == pytest.approx(whole.value, rel=1e-13)
    np.testing.assert_allclose(cut.gradient, whole.gradient, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(cut.hessian, whole.hessian, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-5), (np.float32, 5e-3)])
def test_newton_and_lbfgs_meet(kind, dtype, tolerance):
    objective, theta = problem(kind, n=500, dtype=dtype)
    newton, lbfgs = objective._newton(theta, None), objective._lbfgs(theta, None)
    assert newton.converged
    assert lbfgs.converged
    np.testing.assert_allclose(lbfgs.theta, newton.theta, atol=tolerance)
    assert lbfgs.loss_before == newton.loss_before
    assert lbfgs.loss_after == pytest.approx(newton.loss_after, rel=1e-6)


@pytest.mark.parametrize("solver", [LinearSoftmax._newton, LinearSoftmax._lbfgs])
def test_fixed_parameters_stay(solver):
    objective, theta = problem(FullSoftmax)
    fixed = np.zeros(theta.shape, bool)
    fixed[:, -1] = True
    fit = solver(objective, theta, fixed)
    np.testing.assert_array_equal(fit.theta[:, -1], theta[:, -1])
    assert (fit.theta[:, :-1] != theta[:, :-1]).all()


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    objective, theta = problem(FullSoftmax)
    monkeypatch.setattr(linear_softmax, "_PASSES", 2)
    monkeypatch.setattr(linear_softmax, "_FEWEST_PASSES", 2)
    assert not objective._lbfgs(theta, None).converged


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_ruled_out_gets_nothing_and_teaches_nothing(kind):
    """The loss is that of a softmax over the classes that remain."""
    objective, theta = problem(kind)
    z = objective.logits.copy()
    z[3, 1] = z[4, 2] = -np.inf
    objective.y[3], objective.y[4] = 0, 2  # the second true class is ruled out: no such row
    objective.logits = z
    at = objective.evaluate(theta, hessian=True)
    assert np.isfinite(at.value)
    assert np.isfinite(at.hessian).all()
    others = np.delete(np.arange(60), 4)
    total = objective.weight.sum()
    without = kind(
        raw_logits, z[others], objective.y[others], objective.weight[others], objective.ridge,
        objective.center,
    )  # fmt: skip
    penalty = (objective.ridge * (theta - objective.center) ** 2).sum()
    rest = without.evaluate(theta, hessian=False).value - penalty
    expected = rest * (total - objective.weight[4]) / total
    assert at.value - penalty == pytest.approx(expected, rel=1e-12)


def test_predictions_keep_zero_where_a_class_is_ruled_out():
    z = np.array([[1.0, 2.0, -np.inf], [0.0, 1.0, 2.0]])
    theta = np.array([[1.0, 0.5, -1.0], [0.0, 1.0, 0.0], [0.2, 0.3, 1.0], [0.0, 0.0, 3.0]])
    proba = bound_linear(z, raw_logits, matrix_scores, theta).proba()
    scores = np.array([1.0, 2.0, 1.0]) @ theta[:-1] + theta[-1]  # -inf as the lowest of its row
    np.testing.assert_allclose(proba[0], [*softmax(scores[:2]), 0.0])
    np.testing.assert_allclose(proba[1], softmax(z[1] @ theta[:-1] + theta[-1]))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_features(dtype, tolerance):
    z = (3 * np.random.default_rng(0).standard_normal((30, 6))).astype(dtype)
    exact = z.astype(np.float64)
    np.testing.assert_allclose(log_proba(z), log_softmax(exact, axis=1), rtol=tolerance)
    mixed = np.log(0.98 * softmax(exact / 1.7, axis=1) + 0.02 / 6)
    np.testing.assert_allclose(log_mixed_proba(z, 1.7, 0.02), mixed, rtol=tolerance)
    for features in (raw_logits, log_proba, lambda rows: log_mixed_proba(rows, 1.7, 0.02)):
        hard = np.array([[1e4, -np.inf, 0], [np.finfo(dtype).max, np.finfo(dtype).min, 0]], dtype)
        assert features(z).dtype == dtype
        assert np.isfinite(features(hard)).all()
    # one floor for all precisions, so that a float32 file and a float64 file agree
    assert log_proba(np.array([[0, -500.0]], dtype))[0, 1] == pytest.approx(-87.336544, rel=1e-6)


def test_penalty_by_part():
    ridge, center = Penalty(3.0, 2.0, 1.0).arrays(3, diagonal=0.5)
    np.testing.assert_array_equal(ridge, [[2, 3, 3], [3, 2, 3], [3, 3, 2], [1, 1, 1]])
    np.testing.assert_array_equal(center, [[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5], [0, 0, 0]])
    default = Penalty.structured(10, 500.0, None, 0.1, None)
    assert default == Penalty(pytest.approx(90 / 500), pytest.approx(1 / 500), 10 / 500)


@pytest.mark.parametrize("name", ["matrix", "dirichlet", "sms"])
def test_a_matrix_beyond_memory_is_refused_with_the_number(name):
    z = np.zeros((2, 20_000), np.float32)
    z[:, :2] = 5, 1
    with pytest.raises(ValueError, match="20,000 classes has 400,020,000 .* needs 160 GB .* Use v"):
        make_calibrator(name).fit(z, [0, 1])
