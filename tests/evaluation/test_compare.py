"""`compare` and `compare_models`."""

import json

import numpy as np
import pytest

import wildcal
from wildcal import compare, compare_models, metrics
from wildcal.core.exceptions import InputError
from wildcal.testing import make_suite


@pytest.fixture(scope="module")
def suite():
    return make_suite(1500)


@pytest.fixture(scope="module")
def comparison(suite):
    return compare(suite.calibration, suite.shifted, ["identity", "vector", "ts", "energy"])


def test_ranked_by_nll_with_paired_differences(suite, comparison):
    values = [m.evaluation.nll.value for m in comparison.methods]
    assert values == sorted(values)
    assert comparison.sort == "nll"
    assert comparison.best.difference is None
    for method in comparison.methods[1:]:
        gap = method.difference
        assert gap.value == pytest.approx(method.evaluation.nll.value - values[0])
        assert gap.low <= gap.value <= gap.high
    own = comparison["ts"].calibrator.predict_proba(suite.shifted.logits)
    assert comparison["ts"].evaluation.nll.value == metrics.nll(suite.shifted.y, own)


def test_information_used_and_changed_predictions(suite, comparison):
    assert str(comparison["identity"].information) == "nothing"
    assert str(comparison["ts"].information) == "1,500 labels"
    assert str(comparison["energy"].information) == "1,500 labels, 75 OOD samples"
    assert comparison["ts"].preserves_accuracy
    assert comparison["ts"].changed == 0
    vector = comparison["vector"]
    predicted = vector.calibrator.predict(suite.shifted.logits)
    raw = suite.shifted.logits.argmax(axis=1)
    assert vector.changed == pytest.approx((predicted != raw).mean())
    accuracy = (predicted == suite.shifted.y).mean()
    assert vector.evaluation.accuracy.value == pytest.approx(accuracy)


def test_sort_and_json(suite):
    found = compare(
        suite.calibration, suite.shifted, ["identity", "ts"], sort="aurc", n_bootstrap=20
    )
    assert found.sort == "aurc"
    assert json.loads(json.dumps(found.to_dict()))["sort"] == "aurc"
    assert {record["method"] for record in found.records()} == {"identity", "ts"}
    assert "<table" in found._repr_html_()
    with pytest.raises(InputError, match="sort must be a metric with a better side"):
        compare(suite.calibration, suite.shifted, ["ts"], sort="mean_confidence")


def test_unknown_metrics_are_named_before_a_fit(suite):
    fitted = []
    with pytest.raises(InputError, match="Unknown metric 'aurcc'"):
        compare(suite.calibration, suite.test, ["ts"], metrics=["aurcc"], progress=fitted.append)
    assert not fitted


def test_default_methods():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    p = rng.dirichlet([2, 1, 1], 300)
    found = compare((p, y), (p, y), input="proba", n_bootstrap=0)
    assert set(found) == {"identity", "ts", "ets", "vector", "dirichlet", "sms", "irova", "auto"}


def test_confidences():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 2000)
    correct = rng.random(2000) < confidence - 0.2
    samples = (confidence, correct)
    found = compare(samples, samples, input="confidence", n_bootstrap=20)
    assert found.sort == "top_label_brier"
    assert found["identity"].evaluation.ece.value > 0.15
    assert found.best.evaluation.ece.value < 0.05


def test_methods_that_cannot_be_fitted(suite):
    found = compare(suite.calibration, suite.test, ["ts", "dac"], n_bootstrap=0)
    assert list(found) == ["ts"]
    assert "knn_distances" in found.failed["dac"]
    assert "dac failed" in str(found)
    with pytest.raises(InputError, match="must contain one that can be fitted. knn_distances"):
        compare(suite.calibration, suite.test, ["dac"])


def test_given_calibrators_are_not_fitted(suite):
    given = wildcal.TemperatureScaling()
    compare(suite.calibration, suite.test, {"mine": given}, n_bootstrap=0)
    assert not given.is_fitted


def test_input_must_be_pairs(suite):
    with pytest.raises(InputError, match=r"calibration must be a pair \(X, y\)"):
        compare(suite.calibration.logits, suite.test)


@pytest.fixture
def two_models():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1500, 3)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((1500, 1))).argmax(axis=1)
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    return y, p, sharp


def test_models_are_compared_on_the_same_replicates(two_models):
    y, p, sharp = two_models
    found = compare_models({"a": (y, p), "b": (y, sharp)})
    gap = found.differences["b"]["nll"]
    assert gap.value == pytest.approx(metrics.nll(y, sharp) - metrics.nll(y, p))
    width = found.evaluations["b"].nll.high - found.evaluations["b"].nll.low
    assert gap.high - gap.low < width
    assert found.verdicts["b"]["nll"] == "worse"
    assert found.verdicts["b"]["accuracy"] == "undecided"
    assert found.verdicts["b"]["mean_confidence"] == "different"
    assert found.verdicts["b"]["ece"] == "worse"
    assert "b - a" in str(found)


def test_margin(two_models):
    y, p, sharp = two_models
    found = compare_models({"a": (y, p), "b": (y, sharp)}, margin=0.01)
    assert found.verdicts["b"]["accuracy"] == "equivalent"
    assert found.verdicts["b"]["nll"] == "worse"
    assert json.dumps(found.to_dict())


def test_models_need_the_same_samples(two_models):
    y, p, sharp = two_models
    with pytest.raises(InputError, match="same samples in the same order"):
        compare_models({"a": (y, p), "b": (y[::-1], sharp)})
    with pytest.raises(InputError, match="at least two"):
        compare_models({"a": (y, p)})
