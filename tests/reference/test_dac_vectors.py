"""Layer weights against those of the published code, and of the formulas solved exactly."""

import numpy as np
import pytest

from wildcal import DensityAwareCalibration
from wildcal.core.exceptions import CalibrationWarning

# As good as the published 1e-20: all probabilities there are 0 or 1.
NO_FLOOR = 1e-6


@pytest.fixture(scope="module")
def dac(vectors, reference_data):
    data, stored = reference_data("k10"), vectors("dac")
    return {
        **stored,
        "val": (data["val_logits"], data["val_labels"], np.array(stored["scores_val"]).T),
        "test": (data["test_logits"], np.array(stored["scores_test"]).T),
    }


def fitted(dac, **options):
    logits, y, distances = dac["val"]
    with pytest.warns(CalibrationWarning, match="have the smallest S"):
        return DensityAwareCalibration(**options).fit(logits, y, knn_distances=distances)


@pytest.mark.parametrize(("loss", "key", "per_row"), [("mse", "mse", 10), ("nll", "ce", 1)])
def test_weights_and_loss(dac, loss, key, per_row):
    found, wanted = fitted(dac, loss=loss, floor=NO_FLOOR), dac[key]
    numbers = np.append(found.weights_, found.offset_)
    # The published mean squared error is over rows and classes, ours over rows.
    assert found.fit_info_.loss_after / per_row == pytest.approx(wanted["exact_loss"], abs=1e-9)
    assert found.fit_info_.loss_after / per_row <= wanted["reference_loss"] + 1e-9
    np.testing.assert_allclose(numbers, wanted["exact_w"], rtol=1e-5)
    np.testing.assert_allclose(numbers, wanted["reference_w"], atol=1e-2)


@pytest.mark.parametrize(("loss", "key"), [("mse", "mse"), ("nll", "ce")])
def test_temperatures_and_confidences(dac, loss, key):
    found, (logits, distances) = fitted(dac, loss=loss, floor=NO_FLOOR), dac["test"]
    clipped = np.maximum(dac[key]["T_test_first10_ref"], NO_FLOOR)
    np.testing.assert_allclose(found.scale(distances)[:10], clipped, rtol=1e-4)
    np.testing.assert_allclose(
        found.confidence(logits, knn_distances=distances)[:20],
        dac[key]["conf_test_first20_ref"],
        atol=1e-4,
    )


def test_smallest_scale(dac):
    """Most rows of this set would get a temperature of zero; ours is at least 0.05."""
    found, (_, distances) = fitted(dac), dac["test"]
    assert found.scale(distances).min() == 0.05
    assert found.fit_info_.loss_after / 10 == pytest.approx(dac["mse"]["exact_loss"], rel=0.01)
