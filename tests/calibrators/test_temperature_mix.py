"""Temperature mix: temperature scaling, and one more row that could be anything."""

import numpy as np
import pytest

from wildcal import TemperatureScaling
from wildcal.calibrators import TemperatureMix
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)


def test_is_temperature_scaling_and_a_uniform_part():
    logits, y = SUITE.tuning
    mixed, plain = TemperatureMix().fit(logits, y), TemperatureScaling().fit(logits, y)
    assert mixed.uniform_ == 1 / (len(y) + 1)
    expected = (1 - mixed.uniform_) * plain.predict_proba(SUITE.clean.logits) + mixed.uniform_ / 10
    np.testing.assert_allclose(mixed.predict_proba(SUITE.clean.logits), expected, rtol=1e-5)


def test_weights_count_as_rows():
    logits, y = SUITE.tuning
    fitted = TemperatureMix().fit(logits, y, sample_weight=np.full(len(y), 3.0))
    assert fitted.uniform_ == 1 / (3 * len(y) + 1)


def test_no_class_is_ever_impossible():
    logits, y = SUITE.tuning
    fitted = TemperatureMix().fit(logits, y)
    sure = np.zeros((1, 10))
    sure[0, 0] = 1e6
    assert fitted.predict_proba(sure).min() == pytest.approx(1 / (10 * (len(y) + 1)))


def test_reports_the_loss_it_ends_with():
    logits, y = SUITE.tuning
    fitted = TemperatureMix().fit(logits, y)
    proba = fitted.predict_proba(logits.astype(np.float64))[np.arange(len(y)), y]
    assert fitted.fit_.loss_after == pytest.approx(-np.log(proba).mean(), rel=1e-5)


@pytest.mark.parametrize("change", [{"temperature_": -1.0}, {"uniform_": 1.5}])
def test_impossible_fitted_values_are_refused(change):
    fitted = TemperatureMix().fit(*SUITE.tuning)
    vars(fitted).update(change)
    with pytest.raises(ValueError, match="must"):
        fitted._check_fitted()
