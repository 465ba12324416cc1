"""Projected Newton: exact on quadratics, honest about bounds and about giving up."""

import numpy as np
import pytest

from wildcal.core.objective import Point, TemperatureObjective, exp_link
from wildcal.core.optimize import WARM_START_ROWS, minimize_in_box, minimize_temperature
from wildcal.testing import make_suite


def quadratic(matrix, center, constant=1.0):
    matrix, center = np.array(matrix, float), np.array(center, float)

    def f(x):
        d = x - center
        return Point(float(d @ matrix @ d / 2 + constant), matrix @ d, matrix)

    return f


FREE = (np.full(2, -np.inf), np.full(2, np.inf))


def test_quadratic_in_one_step():
    solution = minimize_in_box(quadratic([[2, 1], [1, 3]], [1, -2]), np.zeros(2), *FREE)
    np.testing.assert_allclose(solution.x, [1, -2], atol=1e-12)
    assert solution.converged
    assert solution.iterations == 1


def test_bounds_hold_and_are_exact():
    # The free minimum is (1, -2); with x2 >= 0 the best x1 solves 2 (x1 - 1) + 2 = 0.
    solution = minimize_in_box(
        quadratic([[2, 1], [1, 3]], [1, -2]), np.array([5.0, 5.0]), np.zeros(2), np.full(2, 9.0)
    )
    np.testing.assert_allclose(solution.x, [0, 0], atol=1e-12)
    assert solution.converged


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_every_convex_quadratic_in_a_box(size):
    """Where the Newton step leaves the box, cutting it off would not do."""
    rng = np.random.default_rng(size)
    low, high = np.zeros(size), np.full(size, 10.0)
    for _ in range(300):
        root = rng.normal(size=(size, size)) * np.exp(rng.normal(0, 1.5, size))
        matrix, center = root @ root.T + 1e-3 * np.eye(size), rng.normal(3, 8, size)
        solution = minimize_in_box(quadratic(matrix, center), np.ones(size), low, high)
        gradient = matrix @ (solution.x - center)
        outward = ((solution.x <= low) & (gradient > 0)) | ((solution.x >= high) & (gradient < 0))
        tolerance = 1e-6 * (1 + np.abs(matrix).max())
        assert solution.converged
        assert np.abs(gradient[~outward]).max(initial=0) <= tolerance


def test_a_gradient_that_lies_is_reported():
    def wrong(x):
        return Point(float(1 + x @ x), -2 * x, 2 * np.eye(2))

    solution = minimize_in_box(wrong, np.ones(2), *FREE)
    assert not solution.converged


def test_leaves_a_saddle():
    def double_well(x):
        value = (x[0] ** 2 - 1) ** 2 + x[1] ** 2
        return Point(
            float(value),
            np.array([4 * x[0] * (x[0] ** 2 - 1), 2 * x[1]]),
            np.array([[12 * x[0] ** 2 - 4, 0], [0, 2.0]]),
        )

    solution = minimize_in_box(double_well, np.array([0.1, 1.0]), *FREE)
    np.testing.assert_allclose(solution.x, [1, 0], atol=1e-6)


def test_says_when_it_gave_up():
    def slope_without_end(x):
        return Point(float(-np.sqrt(1 + x @ x)), -x / np.sqrt(1 + x @ x), np.eye(2) * 1e-3)

    solution = minimize_in_box(slope_without_end, np.ones(2), *FREE, max_iter=3)
    assert not solution.converged
    assert solution.reason == "stopped after 3 iterations"


def test_a_flat_function_is_left_where_it_started():
    flat = lambda x: Point(1.0, np.zeros(1), np.zeros((1, 1)))  # noqa: E731
    solution = minimize_in_box(flat, np.zeros(1), np.full(1, -5.0), np.full(1, 5.0))
    assert solution.x[0] == 0
    assert solution.converged


def test_warm_start_does_not_move_the_minimum():
    suite = make_suite(n_tuning=3 * WARM_START_ROWS, n_ood_tuning=5, n_test=10)
    keep = suite.tuning.y >= 0
    logits, y = suite.tuning.logits[keep].astype(np.float64), suite.tuning.y[keep]
    objective = TemperatureObjective(logits, y, None, np.ones((len(y), 1)), exp_link, loss="nll")
    box = np.full(1, -4.0), np.full(1, 4.0)
    warm = minimize_temperature(objective, np.full(1, 2.0), *box)
    cold = minimize_in_box(objective, np.full(1, 2.0), *box)
    assert warm.x[0] == pytest.approx(cold.x[0], rel=1e-9)
    assert warm.iterations < cold.iterations  # fewer full passes: that is what it is for


@pytest.mark.parametrize(
    ("value", "slope", "bend"), [(1.0, 1.0, np.inf), (1.0, 1.0, np.nan), (np.inf, 1.0, 1.0)]
)
def test_a_loss_that_is_not_finite_ends_the_search(value, slope, bend):
    def f(x):
        return Point(value, np.array([slope]), np.array([[bend]]))

    solution = minimize_in_box(f, np.zeros(1), np.full(1, -9.0), np.full(1, 9.0))
    assert (solution.converged, solution.reason) == (False, "the loss is not finite")
    np.testing.assert_array_equal(solution.x, [0.0])
