"""Entropy-based temperature scaling: finds the map it was drawn from, and plain scaling."""

import zlib

import numpy as np
import pytest
from scipy.special import softmax

from wildcal import TemperatureScaling
from wildcal.calibrators import EntropyTemperatureScaling
from wildcal.calibrators.softplus import (
    bounded_softplus,
    inverse_softplus,
    softplus_temperature,
)
from wildcal.core.errors import CalibrationWarning
from wildcal.core.objective import TemperatureObjective
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)


def log_entropy(z):
    p = softmax(z, axis=1)
    return np.log(-(p * np.log(p)).sum(axis=1) / np.log(z.shape[1]))


def draw(z, temperature, rng):
    """Labels from softmax(z / T): the largest of z / T plus Gumbel noise."""
    return (z / np.reshape(temperature, (-1, 1)) + rng.gumbel(size=z.shape)).argmax(axis=1)


def standard_errors(fitted, z, y):
    design = np.column_stack([np.ones(len(y)), log_entropy(z)])
    link = bounded_softplus(fitted.bounds)
    objective = TemperatureObjective(z, y, None, design, link, loss="nll")
    at = objective(np.array([fitted.bias_, fitted.weight_]))
    return np.sqrt(np.diag(np.linalg.inv(at.hessian)) / len(y))


def test_recovers_the_map_the_labels_were_drawn_with():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 3, (60_000, 5))
    weight, bias = 0.6, 2.0
    y = draw(z, np.logaddexp(0, weight * log_entropy(z) + bias), rng)
    fitted = EntropyTemperatureScaling().fit(z, y)
    error = (np.array([fitted.bias_, fitted.weight_]) - [bias, weight]) / standard_errors(
        fitted, z, y
    )
    assert np.abs(error).max() < 4


def test_is_temperature_scaling_where_nothing_else_helps():
    rng = np.random.default_rng(1)
    z = rng.normal(0, 3, (60_000, 5))
    y = draw(z, 2.0, rng)
    fitted = EntropyTemperatureScaling().fit(z, y)
    assert abs(fitted.weight_) < 4 * standard_errors(fitted, z, y)[1]
    np.testing.assert_allclose(fitted.temperature(z), 2.0, atol=0.15)


def test_never_worse_than_temperature_scaling():
    logits, y = SUITE.tuning
    fitted = EntropyTemperatureScaling().fit(logits, y)
    plain = TemperatureScaling().fit(logits, y)
    assert fitted.fit_.loss_before == pytest.approx(plain.fit_.loss_after, rel=1e-6)
    assert fitted.fit_.loss_after < plain.fit_.loss_after


@pytest.mark.parametrize("loss", ["nll", "mse"])
def test_derivatives_are_those_of_finite_differences(loss):
    rng = np.random.default_rng(0)
    z, y = rng.normal(0, 3, (80, 4)), rng.integers(0, 4, 80)
    design = np.column_stack([np.ones(80), log_entropy(z)])
    objective = TemperatureObjective(z, y, None, design, bounded_softplus((0.5, 1.8)), loss=loss)
    phi, step = np.array([1.2, 0.4]), 1e-5
    at = objective(phi)
    for i, unit in enumerate(np.eye(2) * step):
        up, down = objective(phi + unit), objective(phi - unit)
        slope = (up.value - down.value) / (2 * step)
        np.testing.assert_allclose(at.gradient[i], slope, rtol=1e-6, atol=1e-9)
        curvature = (up.gradient - down.gradient) / (2 * step)
        np.testing.assert_allclose(at.hessian[i], curvature, rtol=1e-5, atol=1e-8)


def test_softplus_and_its_inverse():
    for temperature in (1e-3, 0.5, 1.0, 80.0):
        eta = np.array([inverse_softplus(temperature)])
        assert softplus_temperature(eta, (1e-4, 1e4))[0] == pytest.approx(temperature, rel=1e-12)
    ends = softplus_temperature(np.array([-1e300, -np.inf, 1e300, np.inf]), (0.01, 100.0))
    np.testing.assert_array_equal(ends, [0.01, 0.01, 100, 100])


def test_temperatures_stay_in_bounds_for_every_row():
    fitted = EntropyTemperatureScaling(bounds=(0.8, 1.6)).fit(*SUITE.tuning)
    fitted.weight_ = 50.0  # as a file might say
    z = np.outer(np.r_[0, np.logspace(-8, 30, 200)], np.linspace(-1, 1, 10))
    h = fitted.temperature(z)
    assert h.min() >= 0.8
    assert h.max() <= 1.6
    z[0, 3:] = -np.inf
    assert np.isfinite(fitted.temperature(z)).all()


def test_all_correct_ends_at_the_bound_with_a_warning():
    logits = SUITE.tuning.logits[:300]
    with pytest.warns(CalibrationWarning, match="at its bound"):
        fitted = EntropyTemperatureScaling().fit(logits, logits.argmax(axis=1))
    assert fitted.temperature(logits).max() < 0.1


def test_equal_logits_give_temperature_one():
    fitted = EntropyTemperatureScaling().fit(np.full((30, 3), 4.0), np.arange(30) % 3)
    np.testing.assert_allclose(fitted.temperature(np.full((2, 3), 4.0)), 1.0)


def test_a_valley_that_ends_in_a_corner_is_walked_to_its_end():
    """Trial numbers/hts-optimum#100 of the campaign, seed 20265: 50 steps ended on the way."""
    rng = np.random.default_rng([20265, zlib.crc32(b"numbers/hts-optimum"), 100])
    n, k = int(rng.integers(40, 150)), int(rng.integers(2, 5))
    z = rng.normal(size=(n, k)) * 10 ** rng.uniform(-0.5, 0.7)
    y = (z / 10 ** rng.uniform(-0.3, 0.5) + rng.gumbel(size=z.shape)).argmax(axis=1)
    fitted = EntropyTemperatureScaling().fit(z, y)  # a warning would be an error
    assert fitted.fit_.converged
    assert fitted.fit_.loss_after < 0.66113385
    assert fitted.weight_ == 100
