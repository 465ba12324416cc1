"""Parameterized temperature scaling: exact gradients, one fit per data set, T within bounds."""

import numpy as np
import pytest

from wildcal import TemperatureScaling
from wildcal.calibrators import ParameterizedTemperatureScaling
from wildcal.calibrators.small_network import Network
from wildcal.core.errors import CalibrationWarning
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)


def brier(calibrator, split):
    proba = calibrator.predict_proba(split.logits).astype(np.float64)
    return np.square(proba - np.eye(10)[split.y]).sum(axis=1).mean()


def test_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    network = Network(4, 3)
    weights, x, slope = rng.normal(size=network.size), rng.normal(size=(4, 50)), rng.normal(size=50)

    def value(w):
        return slope @ network.forward(w, x)[2]

    a, b, _ = network.forward(weights, x)
    step = 1e-6
    expected = [
        (value(weights + unit) - value(weights - unit)) / (2 * step)
        for unit in np.eye(network.size) * step
    ]
    np.testing.assert_allclose(
        network.backward(weights, x, a, b, slope), expected, rtol=1e-6, atol=1e-8
    )


def test_the_published_network_has_91_weights():
    assert Network(10, 5).size == 91


def test_better_than_temperature_scaling_where_the_temperature_varies():
    fitted = ParameterizedTemperatureScaling().fit(*SUITE.tuning)
    plain = TemperatureScaling(loss="mse").fit(*SUITE.tuning)
    assert fitted.fit_.converged
    assert brier(fitted, SUITE.clean) < brier(plain, SUITE.clean)
    assert brier(fitted, SUITE.shifted) < brier(plain, SUITE.shifted)


def test_a_strong_ridge_leaves_temperature_scaling():
    """All but the small outputs the network starts with."""
    fitted = ParameterizedTemperatureScaling(ridge=1e9).fit(*SUITE.tuning)
    plain = TemperatureScaling(loss="mse").fit(*SUITE.tuning)
    np.testing.assert_allclose(fitted.temperature(SUITE.clean.logits), plain.temperature_, rtol=0.3)
    assert brier(fitted, SUITE.clean) == pytest.approx(brier(plain, SUITE.clean), rel=0.01)


def test_is_temperature_scaling_where_nothing_else_helps():
    rng = np.random.default_rng(1)
    z = rng.normal(0, 3, (8000, 5))
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    fitted = ParameterizedTemperatureScaling().fit(z, y)
    np.testing.assert_allclose(np.median(fitted.temperature(z)), 2.0, atol=0.1)


def test_the_seed_hardly_matters():
    one, two = (ParameterizedTemperatureScaling(seed=s).fit(*SUITE.tuning) for s in (0, 1))
    assert brier(one, SUITE.clean) == pytest.approx(brier(two, SUITE.clean), rel=0.01)
    assert (one.weights_ != two.weights_).any()


def test_only_the_largest_logits_count():
    fitted = ParameterizedTemperatureScaling(top_k=3).fit(*SUITE.tuning)
    assert fitted.mean_.shape == (3,)
    z = SUITE.clean.logits[:50].copy()
    before = fitted.temperature(z)
    np.put_along_axis(z, z.argmin(axis=1)[:, None], -500.0, axis=1)
    np.testing.assert_array_equal(fitted.temperature(z), before)


def test_temperatures_stay_in_bounds_for_every_row():
    fitted = ParameterizedTemperatureScaling().fit(*SUITE.tuning)
    level = np.r_[-np.logspace(30, -3, 100), np.logspace(-3, 30, 100)]
    z = np.column_stack([level, level - 1.0, *([level - 30] * 8)])
    z[5, 4:] = -np.inf
    h = fitted.temperature(z)
    assert h.min() >= 0.01
    assert h.max() <= 100
    fitted.weights_ = 1e6 * fitted.weights_  # as a file might say
    assert np.isfinite(fitted.predict_proba(z)).all()


def test_a_column_that_never_varies_is_ignored():
    logits = SUITE.tuning.logits.astype(np.float64)
    padded = np.column_stack([logits, np.full(len(logits), 50.0)])  # always the largest
    fitted = ParameterizedTemperatureScaling().fit(padded, SUITE.tuning.y)
    z = padded[:20].copy()
    before = fitted.temperature(z)
    z[:, -1] = 55.0
    np.testing.assert_array_equal(fitted.temperature(z), before)


def test_equal_logits_give_temperature_one():
    fitted = ParameterizedTemperatureScaling().fit(np.full((30, 3), 4.0), np.arange(30) % 3)
    np.testing.assert_allclose(fitted.temperature(np.full((2, 3), 4.0)), 1.0, atol=1e-6)


def test_all_correct_ends_near_the_bound_with_a_warning():
    logits = SUITE.tuning.logits[:300]
    with pytest.warns(CalibrationWarning, match="at its bound"):
        fitted = ParameterizedTemperatureScaling().fit(logits, logits.argmax(axis=1))
    assert fitted.temperature(logits).max() < 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights_": np.zeros(90)}, "weights_ must have shape"),
        ({"mean_": np.zeros(9)}, "mean_ must have shape"),
        ({"std_": np.zeros(10)}, "std_ must be positive"),
    ],
)
def test_impossible_fitted_values_are_refused(change, message):
    fitted = ParameterizedTemperatureScaling().fit(*SUITE.tuning)
    vars(fitted).update(change)
    with pytest.raises(ValueError, match=message):
        fitted._check_fitted()


@pytest.mark.parametrize("option", [{"top_k": 0}, {"n_hidden": 0}, {"ridge": -1.0}, {"seed": -1}])
def test_options_are_checked(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        ParameterizedTemperatureScaling(**option).fit(*SUITE.tuning)
