"""Temperature scaling on data whose answer is known."""

import numpy as np
import pytest
from scipy.special import softmax

from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.core.registry import get_calibrator
from wildcal.testing import make_suite


def calibrated(n, k, seed=0):
    """Return logits with labels drawn from their softmax."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, k))
    y = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return z, y


def loss_of(z, y, t, loss):
    p = softmax(z / t, axis=1)
    if loss == "nll":
        return -np.log(p[np.arange(len(y)), y]).mean()
    return np.square(p - np.eye(z.shape[1])[y]).sum(axis=1).mean()


@pytest.mark.parametrize("loss", ["nll", "mse"])
@pytest.mark.parametrize("true", [0.3, 1.0, 3.0])
def test_known_temperature(true, loss):
    z, y = calibrated(20_000, 6)
    fitted = TemperatureScaling(loss=loss).fit(true * z, y)
    assert fitted.temperature_ == pytest.approx(true, rel=0.04)  # 4 standard errors
    info, t = fitted.fit_info_, fitted.temperature_
    assert (info.converged, info.loss, info.n_samples, info.n_ood) == (True, loss, 20_000, 0)
    assert info.loss_before == pytest.approx(loss_of(true * z, y, 1, loss), rel=1e-9)
    assert info.loss_after == pytest.approx(loss_of(true * z, y, t, loss), rel=1e-9)
    assert info.loss_after <= min(loss_of(true * z, y, t * f, loss) for f in (0.99, 1.01))


@pytest.mark.parametrize(("bounds", "low"), [((1e-2, 1e2), 0.01), ("paper", 0.05)])
def test_all_correct_ends_at_the_lower_bound(bounds, low):
    y = np.arange(30) % 3
    with pytest.warns(CalibrationWarning) as caught:
        fitted = TemperatureScaling(bounds=bounds).fit(4 * np.eye(3)[y], y)
    assert fitted.temperature_ == pytest.approx(low)
    assert f"the temperature {low} is at its bound" in str(caught[0].message)


@pytest.mark.parametrize("name", ["ets", "ts-mix", "hts", "pts", "energy-linear"])
def test_bounds_of_other_methods(name):
    z, y = calibrated(300, 3)
    assert get_calibrator(name, bounds="paper").fit(z, y).fit_info_.converged
    with pytest.raises(InputError, match="bounds must be a pair"):
        get_calibrator(name, bounds=(2, 1)).fit(z, y)


@pytest.mark.parametrize("factor", [1e4, 1e-4])
def test_logits_in_other_units(factor):
    z, y = calibrated(500, 3)
    with pytest.warns(CalibrationWarning) as caught:
        TemperatureScaling().fit(z * factor, y)
    assert "Try wider bounds if the logits have another unit." in str(caught[0].message)
    wide = TemperatureScaling(bounds=(1e-6, 1e6)).fit(z * factor, y)
    assert wide.temperature_ == pytest.approx(factor, rel=0.2)


@pytest.mark.parametrize("loss", ["nll", "mse"])
def test_constant_logits_give_one(loss):
    fitted = TemperatureScaling(loss=loss, bounds=(0.1, 7)).fit(
        np.full((60, 3), 5.0), np.arange(60) % 3
    )
    assert fitted.temperature_ == pytest.approx(1.0)


def test_squared_error_with_two_minima():
    rng = np.random.default_rng(0)
    z = np.zeros((300, 2))
    z[:, 0] = np.r_[np.full(200, 30.0), rng.normal(0, 0.05, 100)]
    y = np.r_[np.where(rng.random(200) < 0.3, 1, 0), (rng.random(100) < 0.5).astype(int)]
    fitted = TemperatureScaling(loss="mse").fit(z, y)
    best = min(loss_of(z, y, t, "mse") for t in np.geomspace(0.011, 99, 1000))
    assert fitted.fit_info_.loss_after <= best + 1e-7


@pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
def test_one_enormous_logit_does_not_stop_the_fit():
    z, y = calibrated(50, 5)
    z[7] = [1e160, 0, 0, 0, 0]
    for y[7] in (0, 3):
        for loss in ("nll", "mse"):
            assert 0.01 <= TemperatureScaling(loss=loss).fit(z, y).temperature_ <= 100


def test_ood_samples_raise_the_temperature():
    suite = make_suite()
    known = suite.calibration.y >= 0
    plain = TemperatureScaling().fit(*(column[known] for column in suite.calibration))
    with_ood = TemperatureScaling(ood=True).fit(*suite.calibration)
    assert with_ood.temperature_ > plain.temperature_
    assert with_ood.fit_info_.n_ood == 250
