"""Temperature from the energy: finds its own map, uses OOD rows, refuses normalized logits."""

import numpy as np
import pytest
from scipy.special import logsumexp

from wildcal import TemperatureScaling, logits_from_proba, softmax
from wildcal.calibrators import EnergyLinear
from wildcal.core.errors import CalibrationWarning
from wildcal.testing import make_suite

SUITE = make_suite(0)


def known(split):
    return split.logits[split.y >= 0], split.y[split.y >= 0]


def familiar_rows(rng, n=60_000, k=5):
    return rng.normal(0, 3, (n, k)) + rng.normal(0, 2, (n, 1))


def draw(z, temperature, rng):
    return (z / np.reshape(temperature, (-1, 1)) + rng.gumbel(size=z.shape)).argmax(axis=1)


def test_recovers_the_map_the_labels_were_drawn_with():
    rng = np.random.default_rng(0)
    z = familiar_rows(rng)
    energy = -logsumexp(z, axis=1)
    y = draw(z, np.logaddexp(0, 3.0 + 0.3 * energy), rng)
    fitted = EnergyLinear().fit(z, y)
    assert fitted.slope_ == pytest.approx(0.3, abs=0.03)
    assert fitted.intercept_ == pytest.approx(3.0, abs=0.2)
    np.testing.assert_allclose(
        fitted.temperature(z), np.logaddexp(0, fitted.intercept_ + fitted.slope_ * energy)
    )


def test_is_temperature_scaling_where_nothing_else_helps():
    rng = np.random.default_rng(1)
    z = familiar_rows(rng)
    fitted = EnergyLinear().fit(z, draw(z, 2.0, rng))
    assert abs(fitted.slope_) < 0.03
    np.testing.assert_allclose(np.median(fitted.temperature(z)), 2.0, atol=0.05)


def test_out_of_distribution_rows_raise_the_temperature_of_ood_rows():
    with_ood, without = EnergyLinear().fit(*SUITE.tuning), EnergyLinear().fit(*known(SUITE.tuning))
    assert (
        with_ood.temperature(SUITE.ood.logits).mean() > without.temperature(SUITE.ood.logits).mean()
    )
    assert with_ood.fit_.n_ood == 250


def test_never_worse_than_temperature_scaling_in_squared_error():
    fitted = EnergyLinear().fit(*SUITE.tuning)
    assert fitted.fit_.loss_after <= fitted.fit_.loss_before


def test_normalized_logits_fall_back_to_one_temperature():
    logits, y = known(SUITE.tuning)
    normalized = logits_from_proba(softmax(logits.astype(np.float64)))
    with pytest.warns(CalibrationWarning, match="same energy"):
        fallen = EnergyLinear().fit(normalized, y)
    assert fallen.slope_ == 0
    plain = TemperatureScaling(loss="mse").fit(normalized, y)
    np.testing.assert_allclose(fallen.temperature(normalized), plain.temperature_, rtol=1e-5)


def test_a_fit_that_uses_the_energy_refuses_normalized_logits():
    fitted = EnergyLinear().fit(*SUITE.tuning)
    normalized = logits_from_proba(softmax(SUITE.clean.logits.astype(np.float64)))
    with pytest.raises(ValueError, match="every row is normalized"):
        fitted.predict_proba(normalized)


def test_temperatures_stay_in_bounds_for_every_row():
    fitted = EnergyLinear().fit(*SUITE.tuning)
    level = np.r_[-np.logspace(30, -3, 100), np.logspace(-3, 30, 100)]
    h = fitted.temperature(np.column_stack([level, level - 1.0, *([level - 30] * 8)]))
    assert h.min() >= 0.01
    assert h.max() <= 100


def test_a_common_constant_changes_nothing():
    logits, y = SUITE.tuning
    logits, test = logits.astype(np.float64), SUITE.clean.logits.astype(np.float64)
    plain, moved = EnergyLinear().fit(logits, y), EnergyLinear().fit(logits + 70, y)
    np.testing.assert_allclose(moved.temperature(test + 70), plain.temperature(test), rtol=1e-6)
