"""Temperature scaling on data whose answer is known."""

import warnings

import numpy as np
import pytest

from wildcal import Identity, TemperatureScaling
from wildcal.calibrators.temperature import PAPER_BOUNDS
from wildcal.core.convert import softmax
from wildcal.core.errors import CalibrationWarning
from wildcal.testing import make_suite


def calibrated(n, k, seed=0):
    """Logits with labels drawn from their own softmax: perfectly calibrated."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, k))
    y = (softmax(z).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return z, y


@pytest.mark.parametrize("loss", ["nll", "mse"])
@pytest.mark.parametrize("true", [0.3, 1.0, 3.0])
def test_recovers_a_known_temperature(true, loss):
    z, y = calibrated(20_000, 6)
    fitted = TemperatureScaling(loss=loss).fit(true * z, y)
    assert fitted.temperature_ == pytest.approx(true, rel=0.04)  # about 4 standard errors


def test_scale_equivariance():
    z, y = calibrated(500, 4)
    one, three = TemperatureScaling().fit(z, y), TemperatureScaling().fit(3 * z, y)
    assert three.temperature_ == pytest.approx(3 * one.temperature_, rel=1e-7)


def test_converges_at_a_thousand_classes():
    """Where the public code stops after one step: the gradient really vanishes here."""
    z, y = calibrated(3000, 1000)
    z = (2.5 * z).astype(np.float32)
    fitted = TemperatureScaling().fit(z, y)
    assert fitted.fit_.converged
    assert fitted.temperature_ == pytest.approx(2.5, rel=0.05)
    step = 1e-3

    def loss(t):
        p = softmax(z.astype(np.float64), t)
        return -np.log(p[np.arange(len(y)), y]).mean()

    t = fitted.temperature_
    assert loss(t) < min(loss(t * (1 + step)), loss(t * (1 - step)))


def test_all_correct_ends_at_the_lower_bound_with_a_warning():
    z = np.eye(3)[np.arange(30) % 3] * 4
    with pytest.warns(CalibrationWarning, match="at its bound"):
        fitted = TemperatureScaling().fit(z, np.arange(30) % 3)
    assert fitted.temperature_ == pytest.approx(0.01)
    with pytest.warns(CalibrationWarning, match="at its bound"):
        paper = TemperatureScaling(bounds=PAPER_BOUNDS).fit(z, np.arange(30) % 3)
    assert paper.temperature_ == pytest.approx(0.05)


@pytest.mark.parametrize("factor", [1e4, 1e-4])
def test_logits_in_other_units_are_thought_of_where_the_temperature_is_at_its_bound(factor):
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (500, 3))
    y = (softmax(z).cumsum(1) < rng.random((500, 1))).sum(1)
    said = "in other units, divide them all by one number, or widen `bounds`"
    with pytest.warns(CalibrationWarning, match=said):
        TemperatureScaling().fit(z * factor, y)
    wide = TemperatureScaling(bounds=(1e-6, 1e6)).fit(z * factor, y)
    assert wide.temperature_ == pytest.approx(factor, rel=0.2)


def test_logits_that_say_nothing_give_one():
    for loss in ("nll", "mse"):
        fitted = TemperatureScaling(loss=loss).fit(np.full((20, 3), 5.0), np.arange(20) % 3)
        assert fitted.temperature_ == pytest.approx(1.0)


def test_squared_error_is_searched_beyond_its_local_minimum():
    """Confident mistakes give the squared error a second minimum; the grid finds the lower one."""
    rng = np.random.default_rng(0)
    z = np.zeros((300, 2))
    z[:, 0] = np.r_[np.full(200, 30.0), rng.normal(0, 0.05, 100)]
    y = np.r_[np.where(rng.random(200) < 0.3, 1, 0), (rng.random(100) < 0.5).astype(int)]
    fitted = TemperatureScaling(loss="mse").fit(z, y)
    grid = np.exp(np.linspace(np.log(0.011), np.log(99), 2000))
    onehot = np.eye(2)[y]
    best = min(((softmax(z, t) - onehot) ** 2).sum(axis=1).mean() for t in grid)
    assert fitted.fit_.loss_after <= best + 1e-7


def test_summary_reports_the_gain():
    suite = make_suite()
    keep = suite.tuning.y >= 0
    fitted = TemperatureScaling().fit(suite.tuning.logits[keep], suite.tuning.y[keep])
    assert fitted.fit_.loss == "nll"
    assert fitted.fit_.loss_after < fitted.fit_.loss_before
    assert fitted.fit_.n_rows == 5000
    assert fitted.fit_.n_ood == 0
    np.testing.assert_allclose(fitted.temperature(suite.clean.logits), fitted.temperature_)


def test_identity_is_the_softmax():
    z, y = calibrated(50, 4)
    identity = Identity().fit(z, y)
    np.testing.assert_array_equal(identity.predict_proba(z), softmax(z))
    np.testing.assert_array_equal(identity.temperature(z), 1)


def test_a_row_beyond_squaring_does_not_stop_the_fit():
    """1e160 squared overflows; it used to leave the solver in an endless loop."""
    z, y = calibrated(50, 5)
    z[7] = [1e160, 0, 0, 0, 0]
    for label in (0, 3):
        y[7] = label
        for loss in ("nll", "mse"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)
                fitted = TemperatureScaling(loss=loss).fit(z, y)
            assert 0.01 <= fitted.temperature_ <= 100


def test_a_true_class_that_was_ruled_out():
    """It counts as the least likely of the others, as a filler of -1e9 in its place does."""
    z, y = calibrated(200, 4)
    finite = z.copy()
    finite[3, y[3]] = np.delete(z[3], y[3]).min()
    expected = TemperatureScaling().fit(finite, y)
    for value in (-np.inf, -1e9):
        z[3, y[3]] = value
        with pytest.warns(CalibrationWarning, match="1 of 200 rows have a true class"):
            fitted = TemperatureScaling().fit(z, y)
        assert fitted.temperature_ == expected.temperature_
        assert fitted.fit_.loss_after == expected.fit_.loss_after


def test_the_bounds_of_the_paper_by_name():
    z, y = calibrated(300, 4)
    with pytest.warns(CalibrationWarning, match="at its bound"):
        assert TemperatureScaling(bounds="paper").fit(10 * z, y).temperature_ == pytest.approx(5)
