"""What holds for every method and every input."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wildcal import testing
from wildcal.calibrators.energy import EnergyScaling
from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.registry import CALIBRATORS, get_calibrator
from wildcal.testing import make_suite

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]
FITTED = {name: testing._fit(get_calibrator(name)) for name in CALIBRATORS}


def logits(dtype):
    """A few samples of finite numbers, ties and extremes among them."""
    numbers = st.one_of(
        st.floats(-100, 100, width=16),
        st.floats(-(2.0**100), 2.0**100, width=32),
        st.sampled_from([0.0, 1.0, -1.0, 1e4, -1e4]),
    )
    return hnp.arrays(dtype, st.tuples(st.integers(1, 5), st.just(5)), elements=numbers)


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_logits(name, dtype):
    fitted = FITTED[name]

    @given(st.booleans(), logits(dtype))
    @settings(max_examples=40)
    def holds(masked, z):
        if masked:
            z[0, :2] = -np.inf
        proba = testing._proba(fitted, z)
        testing._check_distribution(proba)
        if fitted.preserves_accuracy:
            chosen = proba[np.arange(len(z)), z.argmax(axis=1)]
            np.testing.assert_array_equal(chosen, proba.max(axis=1))

    holds()


@pytest.mark.parametrize("name", CALIBRATORS)
def test_permuting_classes_permutes_probabilities(name):
    calibrator, x = get_calibrator(name), testing._new_logits().astype(np.float64)
    order = np.array([3, 0, 4, 1, 2])
    data = testing._samples(calibrator)
    labels = np.append(np.argsort(order), -1)[data["y"]]  # -1 stays -1
    permuted = testing._fit(calibrator, data | {"X": data["X"][:, order], "y": labels})
    expected = testing._proba(FITTED[name], x)[:, order]
    tolerance = 2e-2 if name == "window" else 1e-4  # the order of samples decides which are paired
    np.testing.assert_allclose(testing._proba(permuted, x[:, order]), expected, atol=tolerance)


@given(st.floats(0.2, 5), st.integers(0, 10_000))
@settings(max_examples=20)
def test_temperature_scales_with_the_logits(factor, seed):
    z, y = (column[:200] for column in make_suite(200, 3, seed=seed).calibration)
    plain = TemperatureScaling().fit(z.astype(np.float64), y).temperature_
    assume(0.02 < min(plain, factor * plain))  # without a mistake T ends at its bound
    scaled = TemperatureScaling().fit(factor * z.astype(np.float64), y).temperature_
    assert scaled == pytest.approx(factor * plain, rel=1e-6)


@given(st.integers(0, 10_000), st.sampled_from(["safe", "paper", "none"]), st.floats(0.02, 50))
@settings(max_examples=40)
def test_energy_scaling_reports_its_loss_and_never_ends_above_its_start(seed, bounds, unit):
    suite = make_suite(120, 4, seed=seed)
    z, y = suite.calibration.logits.astype(np.float64) * unit, suite.calibration.y
    fitted = EnergyScaling(theta_bounds=bounds, ood_weight="count").fit(z, y)
    info = fitted.fit_info_
    assert info.loss_after <= info.loss_before * (1 + 1e-9)
    target = np.eye(5)[y][:, :4]
    loss = np.square(fitted.predict_proba(z) - target).sum(axis=1).mean()
    assert loss == pytest.approx(info.loss_after, rel=1e-6, abs=1e-9)
