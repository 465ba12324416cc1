"""What `Trainer` hands over, read without it; tests/interop/integrations has a real one."""

from types import SimpleNamespace

import numpy as np
import pytest

from wildcal._old.core.convert import softmax
from wildcal._old.core.errors import MissingExtraError
from wildcal._old.metrics import accuracy, ece, mean_confidence, nll, noise_floor
from wildcal._old.testing import make_suite
from wildcal.interop import lightning, transformers

SUITE = make_suite(seed=5, n_test=200)
Z, Y = SUITE.shifted.logits, SUITE.shifted.y


def prediction(logits, y):
    return SimpleNamespace(predictions=logits, label_ids=y)


def test_metrics_are_our_own():
    proba = softmax(Z)
    wanted = {metric.__name__: metric(Y, proba) for metric in (accuracy, mean_confidence, nll, ece)}
    wanted["noise_floor"] = noise_floor(proba.max(axis=1))
    assert transformers.compute_metrics(prediction(Z, Y)) == wanted


def test_tuples_tokens_and_ignored_labels():
    tokens, y = Z.reshape(20, 10, -1), np.where(np.arange(200) % 4, Y, -100)
    logits, labels = transformers.logits_and_labels(prediction((tokens, None), y.reshape(20, 10)))
    assert np.array_equal(logits, Z[y != -100])
    assert np.array_equal(labels, Y[y != -100])


def test_regression_is_refused():
    with pytest.raises(
        ValueError, match=r"one more axis, of classes, got \(200, 10\) and \(200, 10\)"
    ):
        transformers.logits_and_labels(prediction(Z, Z))


def test_a_missing_package_is_named_when_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(transformers, "TrainerCallback", None)
    monkeypatch.setattr(lightning, "Callback", None)
    with pytest.raises(MissingExtraError, match=r'pip install "wildcal\[transformers\]"'):
        transformers.CalibrationCallback(None, None, tmp_path / "x.json")
    with pytest.raises(MissingExtraError, match=r'pip install "wildcal\[lightning\]"'):
        lightning.CalibrationCallback(tmp_path / "x.json")
