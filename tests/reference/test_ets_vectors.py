"""Ensemble temperature scaling against the public code (SLSQP) and exact optima."""

import numpy as np
import pytest

from wildcal import EnsembleTemperatureScaling

# Some of these sets have few mistakes, or class frequencies that one temperature does not meet.
pytestmark = pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
SETS = ["k10", "k3", "k2"]


@pytest.mark.parametrize("k", SETS)
@pytest.mark.parametrize(
    ("loss", "temperature_loss", "key", "exact"),
    [
        ("mse", "nll", "ets_w_Tce_loss_mse", "exact_w_qp"),
        ("nll", "nll", "ets_w_Tce_loss_ce", "exact_w"),
        ("mse", "mse", "ets_w_Tmse_loss_mse", None),
    ],
)
def test_weights(vectors, reference_data, k, loss, temperature_loss, key, exact):
    expected = vectors("scaling")[k][key]
    calibrator = EnsembleTemperatureScaling(loss=loss, temperature_loss=temperature_loss)
    fitted = calibrator.fit(*reference_data(k)["without_ood"])
    np.testing.assert_allclose(fitted.weights_, expected["reference_w"], atol=1e-4)
    if exact:
        np.testing.assert_allclose(fitted.weights_, expected[exact], atol=1e-7)
    value = expected.get("exact_loss_sumnorm", expected.get("exact_nll"))
    if value is not None:
        assert fitted.fit_info_.loss_after == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("k", SETS)
def test_probabilities(vectors, reference_data, k):
    data = reference_data(k)
    fitted = EnsembleTemperatureScaling().fit(*data["without_ood"])
    got = fitted.predict_proba(data["test_logits"])[:5]
    np.testing.assert_allclose(got, vectors("scaling")[k]["ets_test_first5"], rtol=1e-5)
