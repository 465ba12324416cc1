"""Objectives against finite differences, the solver against known minima."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.special import softmax

from wildcal.core.optimize import (
    TemperatureObjective,
    exp_link,
    linear_link,
    newton,
    softplus_link,
    temperature_losses,
)

RNG = np.random.default_rng(0)
Z = RNG.normal(0, 3, (300, 5))
Y = np.where(RNG.random(300) < 0.7, Z.argmax(axis=1), RNG.integers(0, 5, 300))
Y[:30] = -1  # OOD
W = RNG.uniform(0.5, 2, 300)
DESIGN = np.column_stack([np.ones(300), RNG.uniform(0, 1, (300, 2))])
LINKS = {"exp": exp_link, "softplus": softplus_link(0.05, 50), "linear": linear_link(0.05)}


def plain_losses(temperature, loss):
    """The loss of each sample, written out."""
    p = softmax(Z / temperature[:, None], axis=1)
    known = Y >= 0
    target = np.where(known[:, None], np.eye(5)[Y], 1 / 5)
    if loss == "nll":
        return -(target * np.log(p)).sum(axis=1)
    # Of OOD samples without the constant 1 / K.
    return np.square(p - target).sum(axis=1) + np.where(known, 0, 1 / 5)


@pytest.mark.parametrize("loss", ["nll", "mse"])
@pytest.mark.parametrize("name", LINKS)
def test_value_gradient_and_hessian(name, loss):
    link = LINKS[name]
    objective = TemperatureObjective(Z, Y, W, DESIGN, link, offset=0.8, loss=loss)
    phi = np.array([0.4, 0.3, -0.2])
    temperature = link(0.8 + DESIGN @ phi)[0]
    expected = np.average(plain_losses(temperature, loss), weights=W)
    value, _, hessian = objective(phi)
    assert value == pytest.approx(expected, rel=1e-12)
    assert check_grad(lambda t: objective(t)[0], lambda t: objective(t)[1], phi) < 1e-6
    step = 1e-5 * np.eye(3)
    columns = [(objective(phi + e)[1] - objective(phi - e)[1]) / 2e-5 for e in step]
    np.testing.assert_allclose(hessian, np.array(columns), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(
        temperature_losses(Z, Y, temperature, loss), plain_losses(temperature, loss), rtol=1e-10
    )


@pytest.mark.parametrize("loss", ["nll", "mse"])
def test_minimum_is_that_of_scipy(loss):
    many = np.tile(np.arange(300), 40)  # enough for a start from a part of the samples
    objective = TemperatureObjective(
        Z[many], Y[many], W[many], DESIGN[many], LINKS["softplus"], offset=0.5, loss=loss
    )
    lower, upper = np.full(3, -4.0), np.full(3, 4.0)
    solution = objective.minimize(np.zeros(3), lower, upper)
    expected = minimize(
        lambda t: objective(t)[:2], np.zeros(3), jac=True, bounds=[(-4, 4)] * 3, method="L-BFGS-B"
    )
    assert solution.converged
    assert solution.value <= expected.fun + 1e-10
    np.testing.assert_allclose(solution.x, expected.x, atol=2e-3)


def quadratic(center, curvature):
    def function(x):
        d = x - center
        return float(d @ curvature @ d) / 2 + 1, curvature @ d, curvature

    return function


def test_newton_solves_a_quadratic_in_one_step():
    center, curvature = np.array([1.0, -2.0]), np.array([[3.0, 1.0], [1.0, 2.0]])
    solution = newton(quadratic(center, curvature), np.zeros(2), np.full(2, -9.0), np.full(2, 9.0))
    np.testing.assert_allclose(solution.x, center, atol=1e-12)
    assert solution.converged
    assert solution.n_iter <= 2


def test_newton_stays_in_its_box():
    center, curvature = np.array([1.0, -2.0]), np.array([[3.0, 1.0], [1.0, 2.0]])
    solution = newton(quadratic(center, curvature), np.zeros(2), np.zeros(2), np.full(2, 9.0))
    # With x2 = 0: 3 (x1 - 1) + 2 = 0.
    np.testing.assert_allclose(solution.x, [1 / 3, 0], atol=1e-9)
    assert solution.converged


@pytest.mark.parametrize("distance", [0.0, 1e-12, 1e-7, 1e-5])
def test_newton_near_a_bound(distance):
    curvature, start = np.array([[1.0, -0.99], [-0.99, 1.0]]), np.array([5.0, distance])
    center = np.array([5.0, 0.0]) - np.linalg.solve(curvature, [-0.5, 1.0])
    solution = newton(quadratic(center, curvature), start, np.zeros(2), np.full(2, 9.0))
    # The gradient at (5, 0) is (-0.5, 1), so with x2 = 0 the minimum is at x1 = 5.5.
    np.testing.assert_allclose(solution.x, [5.5, 0], atol=1e-9)
    assert solution.converged


def test_newton_ends_on_its_bound():
    rising = quadratic(np.array([-5.0]), np.eye(1))
    solution = newton(rising, np.array([1e-7]), np.zeros(1), np.ones(1))
    assert solution.converged
    assert solution.x[0] == 0


def test_newton_leaves_negative_curvature():
    def cosine(x):
        return float(np.cos(x[0])) + 2, -np.sin(x), -np.cos(x)[:, None]

    solution = newton(cosine, np.array([0.3]), np.array([-4.0]), np.array([4.0]), max_step=1.0)
    np.testing.assert_allclose(np.abs(solution.x), np.pi, atol=1e-6)


def test_newton_says_when_it_stops_early():
    def steep(x):
        return float(np.exp(-x[0])), -np.exp(-x), np.exp(-x)[:, None]

    solution = newton(steep, np.zeros(1), np.array([-1e9]), np.array([1e9]), max_iter=3)
    assert not solution.converged
    assert solution.n_iter == 3
