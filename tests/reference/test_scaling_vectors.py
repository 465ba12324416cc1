"""Temperature scaling against the public code and exact optima, and against scikit-learn."""

import numpy as np
import pytest

from wildcal import TemperatureScaling
from wildcal.core.optimize import TemperatureObjective, linear_link

# Some of these sets have few mistakes, or class frequencies that one temperature does not meet.
pytestmark = pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")


@pytest.mark.parametrize("k", ["k10", "k3", "k2"])
@pytest.mark.parametrize(("loss", "key"), [("nll", "ts_ce"), ("mse", "ts_mse")])
def test_temperature(vectors, reference_data, k, loss, key):
    expected = vectors("scaling")[k][key]
    fitted = TemperatureScaling(loss=loss).fit(*reference_data(k)["without_ood"])
    assert fitted.fit_info_.converged
    assert fitted.temperature_ == pytest.approx(expected["exact"], rel=1e-7)
    assert fitted.temperature_ == pytest.approx(expected["reference"], rel=1e-4)


@pytest.mark.parametrize("k", ["k10", "k3", "k2"])
def test_losses_and_slope(vectors, reference_data, k):
    expected = vectors("scaling")[k]
    logits, y = reference_data(k)["without_ood"]

    def terms(loss, temperature):
        ones = np.ones((len(y), 1))
        objective = TemperatureObjective(logits, y, ones[:, 0], ones, linear_link(0.01), loss=loss)
        return objective(np.array([temperature]))

    for key, temperature in (("T=1", 1.0), ("T=exact_ce", expected["ts_ce"]["exact"])):
        nll, slope, _ = terms("nll", temperature)
        mse, _, _ = terms("mse", temperature)
        assert nll == pytest.approx(expected[f"val_nll_{key}"], rel=1e-9)
        assert mse == pytest.approx(expected[f"val_brier_sumnorm_{key}"], rel=1e-9)
        assert slope[0] == pytest.approx(expected[f"val_nll_dT_{key}"], rel=1e-8, abs=1e-11)


@pytest.mark.parametrize("k", ["k10", "k3", "k2"])
def test_probabilities(vectors, reference_data, k):
    data = reference_data(k)
    fitted = TemperatureScaling().fit(*data["without_ood"])
    got = fitted.predict_proba(data["test_logits"])[:5]
    np.testing.assert_allclose(got, vectors("scaling")[k]["ts_test_first5"], rtol=1e-5)


def test_agrees_with_scikit_learn(reference_data, needs):
    needs("sklearn")
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Scores(ClassifierMixin, BaseEstimator):
        """A classifier whose decision function is the logits it is given."""

        def fit(self, x, y):
            self.classes_ = np.unique(y)
            return self

        def decision_function(self, x):
            return x

        def predict(self, x):
            return self.classes_[x.argmax(axis=1)]

    logits, y = reference_data("k10")["without_ood"]
    theirs = CalibratedClassifierCV(
        FrozenEstimator(Scores().fit(logits, y)), method="temperature", ensemble=False
    ).fit(logits, y)
    ours = TemperatureScaling().fit(logits, y)
    test = reference_data("k10")["test_logits"]
    np.testing.assert_allclose(ours.predict_proba(test), theirs.predict_proba(test), atol=1e-6)
