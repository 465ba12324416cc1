"""The torchmetrics metric has the values of our functions, in any batches."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from wildcal import metrics
from wildcal.core.exceptions import InputError
from wildcal.interop.torchmetrics import CalibrationError
from wildcal.testing import make_suite

Z, Y = make_suite(700, seed=3).shifted
ALL = ("ece", "noise_floor", "excess_ece", "accuracy", "mean_confidence")


def expected(z, y):
    proba = softmax(z.astype(np.float64), axis=1)
    values = {name: getattr(metrics, name)(y, proba) for name in ALL if name != "noise_floor"}
    return values | {"noise_floor": metrics.noise_floor(proba.max(axis=1))}


def tensors(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]


def check(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert float(found[name]) == pytest.approx(value, abs=1e-6), name


@pytest.mark.parametrize("size", [1, 64, 700])
def test_any_batches(size):
    metric = CalibrationError(returns=ALL)
    n = 40 if size == 1 else len(Y)
    for start in range(0, n, size):
        metric.update(*tensors(Z[start : start + size], Y[start : start + size]))
    check(metric.compute(), expected(Z[:n], Y[:n]))


def test_value_of_a_batch_and_of_all():
    metric = CalibrationError(input="proba", n_bins=10)
    p = softmax(Z, axis=1)
    first = metric(*tensors(p[:50], Y[:50]))
    assert float(first) == pytest.approx(metrics.ece(Y[:50], p[:50], n_bins=10), abs=1e-6)
    metric(*tensors(p[50:], Y[50:]))
    assert float(metric.compute()) == pytest.approx(metrics.ece(Y, p, n_bins=10), abs=1e-6)
    metric.reset()
    metric.update(*tensors(p[:50], Y[:50]))
    assert metric.compute() == first


def test_states_are_merged():
    both = [CalibrationError(returns=ALL) for _ in range(2)]
    for metric, part in zip(both, (slice(0, 300), slice(300, None)), strict=True):
        metric.update(*tensors(Z[part], Y[part]))
    both[0].merge_state(both[1])
    check(both[0].compute(), expected(Z, Y))


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_ignored_labels_half_precision_and_no_samples():
    metric = CalibrationError(returns=ALL, ignore_index=-100)
    assert all(np.isnan(float(value)) for value in metric.compute().values())
    metric.reset()
    y = np.where(np.arange(len(Y)) % 3, Y, -100)
    logits = torch.from_numpy(Z).bfloat16()
    metric.update(logits, torch.from_numpy(y))
    metric.update(logits[:1], torch.tensor([-100]))
    check(metric.compute(), expected(logits.float().numpy()[y >= 0], y[y >= 0]))


@pytest.mark.parametrize(
    ("options", "preds", "target", "message"),
    [
        ({}, softmax(Z[:9], axis=1), Y[:9], "must be logits"),
        ({"input": "proba"}, Z[:9], Y[:9], r"must lie in \[0, 1\]"),
        ({}, np.array([[3.0, -1.0]]), np.array([2]), r"y must lie in \[0, 1\]"),
        ({}, np.array([[3.0, np.nan]]), np.array([0]), "must be finite, got nan"),
        ({}, np.zeros(3), np.zeros(3, int), "must have shape"),
        ({}, Z[:9], Y[:1], "one label per sample"),
    ],
)
def test_invalid_samples(options, preds, target, message):
    with pytest.raises(InputError, match=message):
        CalibrationError(**options).update(*tensors(preds, target))


@pytest.mark.parametrize("options", [{"input": "scores"}, {"returns": ("ece", "x")}, {"n_bins": 0}])
def test_invalid_options(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
        CalibrationError(**options)
