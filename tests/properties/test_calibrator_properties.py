"""What holds for every input, tried on inputs nobody would think of."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import log_softmax

from wildcal import EnergyScaling, TemperatureScaling, load, save
from wildcal.calibrators.energy import MIN_TEMPERATURE
from wildcal.core.convert import softmax
from wildcal.testing import make_suite

SUITE = make_suite(0, n_classes=4, n_tuning=600, n_ood_tuning=60, n_test=100)
FITTED = {box: EnergyScaling(box=box).fit(*SUITE.tuning) for box in ("safe", "paper", "free")}


# Some seeds draw a set without a single mistake, which is worth a warning and no failure.


def rows(dtype, width):
    """A few rows of any finite numbers of a type, ties and extremes included."""
    elements = st.one_of(
        hnp.from_dtype(np.dtype(dtype), allow_nan=False, allow_infinity=False),
        st.sampled_from([0.0, 1.0, -1.0, 1e4, -1e4]),
    )
    shape = st.tuples(st.integers(1, 5), st.just(width))
    return hnp.arrays(dtype, shape, elements=elements)


@pytest.mark.parametrize("box", FITTED)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_row_gets_a_positive_temperature_and_keeps_its_class(box, dtype):
    fitted = FITTED[box]

    @given(rows(dtype, 4))
    @settings(max_examples=60, deadline=None)
    def holds(z):
        h = fitted.temperature(z)
        assert np.isfinite(h).all()
        assert (h >= np.float32(MIN_TEMPERATURE) * (1 - 1e-6)).all()
        proba = fitted.predict_proba(z)
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1, dtype=float), 1, atol=1e-5)
        chosen = proba[np.arange(len(z)), z.argmax(axis=1)]
        np.testing.assert_array_equal(chosen, proba.max(axis=1))
        np.testing.assert_allclose(fitted.confidence(z), chosen, rtol=1e-5)

    holds()


@given(rows(np.float32, 4), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_a_batch_may_be_cut_anywhere(z, cut):
    whole = FITTED["safe"].predict_proba(z)
    parts = [FITTED["safe"].predict_proba(part) for part in (z[:cut], z[cut:]) if len(part)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")
@given(st.floats(0.2, 5), st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_temperature_scales_with_the_logits(factor, seed):
    suite = make_suite(seed, n_classes=3, n_tuning=200, n_ood_tuning=5, n_test=10)
    keep = suite.tuning.y >= 0
    z, y = suite.tuning.logits[keep].astype(float), suite.tuning.y[keep]
    plain = TemperatureScaling().fit(z, y).temperature_
    assume(0.02 < min(plain, factor * plain))  # a set without a mistake ends at the bound
    scaled = TemperatureScaling().fit(factor * z, y).temperature_
    assert scaled == pytest.approx(factor * plain, rel=1e-6)


@pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")
@given(st.integers(0, 10_000), st.sampled_from(["nll", "mse"]))
@settings(max_examples=20, deadline=None)
def test_no_other_temperature_is_better(seed, loss):
    suite = make_suite(seed, n_classes=3, n_tuning=150, n_ood_tuning=5, n_test=10)
    keep = suite.tuning.y >= 0
    z, y = suite.tuning.logits[keep].astype(float), suite.tuning.y[keep]
    fitted = TemperatureScaling(loss=loss).fit(z, y)
    onehot = np.eye(3)[y]

    def value(t):
        if loss == "nll":
            return -log_softmax(z / t, axis=1)[np.arange(len(y)), y].mean()
        return ((softmax(z, t) - onehot) ** 2).sum(axis=1).mean()

    for t in np.exp(np.linspace(np.log(0.02), np.log(50), 60)):
        assert value(fitted.temperature_) <= value(t) + 1e-10


@pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")
@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_energy_never_ends_above_its_start(seed):
    suite = make_suite(seed, n_classes=5, n_tuning=300, n_ood_tuning=30, n_test=10)
    fit = EnergyScaling().fit(*suite.tuning).fit_
    assert fit.loss_after <= fit.loss_before * (1 + 1e-6)


@given(st.floats(0.01, 100), st.floats(0, 10), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
@settings(max_examples=40, deadline=None)
def test_files_keep_every_bit(tmp_path_factory, temperature, theta, mean, std):
    fitted = EnergyScaling(box="paper").fit(*SUITE.tuning)
    fitted.temperature_, fitted.theta_incorrect_ = temperature, theta
    fitted.incorrect_mean_, fitted.incorrect_std_ = mean, std
    path = tmp_path_factory.mktemp("files") / "x.json"
    save(fitted, path)
    z = SUITE.clean.logits
    assert load(path).predict_proba(z).tobytes() == fitted.predict_proba(z).tobytes()
