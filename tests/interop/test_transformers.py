"""What `Trainer` passes, without it; tests/interop/integrations has a real one."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import softmax

from wildcal import metrics
from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.interop import lightning, transformers
from wildcal.testing import make_suite

Z, Y = make_suite(200, seed=5).shifted


def prediction(logits, y):
    return SimpleNamespace(predictions=logits, label_ids=y)


def test_values_of_our_functions():
    proba = softmax(Z.astype(np.float64), axis=1)
    names = ("accuracy", "mean_confidence", "nll", "ece")
    expected = {name: getattr(metrics, name)(Y, proba) for name in names}
    expected["noise_floor"] = metrics.noise_floor(proba.max(axis=1))
    assert transformers.compute_metrics(prediction(Z, Y)) == pytest.approx(expected, rel=1e-12)


def test_tuples_tokens_and_ignored_labels():
    tokens, y = Z.reshape(20, 10, -1), np.where(np.arange(200) % 4, Y, -100)
    logits, labels = transformers.logits_and_labels(prediction((tokens, None), y.reshape(20, 10)))
    np.testing.assert_array_equal(logits, Z[y != -100])
    np.testing.assert_array_equal(labels, Y[y != -100])


def test_regression_raises():
    message = r"one more axis, of classes, got \(200, 10\) and \(200, 10\)"
    with pytest.raises(InputError, match=message):
        transformers.logits_and_labels(prediction(Z, Z))


def test_missing_packages(tmp_path, monkeypatch):
    monkeypatch.setattr(transformers, "TrainerCallback", None)
    monkeypatch.setattr(lightning, "Callback", None)
    with pytest.raises(MissingExtraError, match=r'pip install "wildcal\[transformers\]"'):
        transformers.CalibrationCallback(None, None, tmp_path / "x.json")
    with pytest.raises(MissingExtraError, match=r'pip install "wildcal\[lightning\]"'):
        lightning.CalibrationCallback(tmp_path / "x.json")
