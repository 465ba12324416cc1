"""The torchmetrics metric has the numbers of our own functions, in any batches and processes."""

import numpy as np
import pytest
import torch

from wildcal._old.core.convert import softmax
from wildcal._old.metrics import accuracy, ece, excess_ece, mean_confidence, noise_floor
from wildcal._old.testing import make_suite
from wildcal.interop.torchmetrics import CalibrationError

SUITE = make_suite(seed=3, n_test=700)
Z, Y = SUITE.shifted.logits.astype(np.float32), SUITE.shifted.y
ALL = ("ece", "noise_floor", "excess_ece", "accuracy", "mean_confidence")


def expected(z, y):
    proba = softmax(z)
    return {
        "ece": ece(y, proba),
        "noise_floor": noise_floor(proba.max(axis=1)),
        "excess_ece": excess_ece(y, proba),
        "accuracy": accuracy(y, proba),
        "mean_confidence": mean_confidence(y, proba),
    }


def tensors(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]


def check(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert float(found[name]) == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("size", [1, 64, 700])
def test_our_own_numbers_in_any_batches(size):
    metric = CalibrationError(returns=ALL)
    for start in range(0, 40 if size == 1 else len(Y), size):
        metric.update(*tensors(Z[start : start + size], Y[start : start + size]))
    seen = 40 if size == 1 else len(Y)
    check(metric.compute(), expected(Z[:seen], Y[:seen]))


def test_the_value_of_a_batch_and_of_all():
    """`forward` returns that of the batch; `reset` forgets."""
    metric = CalibrationError(kind="proba")
    first = metric(*tensors(softmax(Z[:50]), Y[:50]))
    assert float(first) == pytest.approx(ece(Y[:50], softmax(Z[:50])), abs=1e-12)
    metric(*tensors(softmax(Z[50:]), Y[50:]))
    assert float(metric.compute()) == pytest.approx(ece(Y, softmax(Z)), abs=1e-12)
    metric.reset()
    metric.update(*tensors(softmax(Z[:50]), Y[:50]))
    assert metric.compute() == first


def test_halves_make_a_zero_factor():
    """Rows of exactly 0.5 take the transform of the floor to zero, whose logarithm is -inf."""
    metric = CalibrationError(kind="proba", returns="noise_floor")
    half = np.full((2, 2), 0.5)
    for _ in range(2):
        metric.update(*tensors(half, np.zeros(2, np.int64)))
    assert float(metric.compute()) == pytest.approx(noise_floor([0.5] * 4), abs=1e-12)


def test_states_are_saved_and_merged():
    both = [CalibrationError(returns=ALL) for _ in range(2)]
    for metric, part in zip(both, (slice(0, 300), slice(300, None)), strict=True):
        metric.update(*tensors(Z[part], Y[part]))
    both[0].merge_state(both[1])
    check(both[0].compute(), expected(Z, Y))
    kept = CalibrationError(returns=ALL)
    both[0].persistent(True)
    kept.persistent(True)
    kept.load_state_dict(both[0].state_dict())
    kept._update_count = 1  # as if it had seen rows, which it has
    check(kept.compute(), expected(Z, Y))


def test_ignored_rows_half_precision_and_no_rows():
    y = np.where(np.arange(len(Y)) % 3, Y, -100)
    metric = CalibrationError(returns=ALL, ignore_index=-100)
    logits = torch.from_numpy(Z).bfloat16()
    metric.update(logits, torch.from_numpy(y))
    metric.update(logits[:1], torch.tensor([-100]))
    check(metric.compute(), expected(logits.float().numpy()[y >= 0], y[y >= 0]))


@pytest.mark.parametrize(
    ("options", "preds", "target", "message"),
    [
        ({}, np.full((8, 2), 0.5), np.zeros(8, int), "logits must be raw scores"),
        ({"kind": "proba"}, np.array([[3.0, -1.0]]), np.array([0]), "proba must"),
        ({}, np.array([[3.0, -1.0]]), np.array([2]), r"y must lie in \[-1, 1\]"),
        ({}, np.array([[3.0, np.nan]]), np.array([0]), "logits"),
        ({}, np.zeros(3), np.zeros(3, int), "logits must have shape"),
    ],
)
def test_refusals(options, preds, target, message):
    with pytest.raises(ValueError, match=message):
        CalibrationError(**options).update(*tensors(preds, target))


def test_wrong_options():
    with pytest.raises(ValueError, match="kind must be one of"):
        CalibrationError(kind="scores")
    with pytest.raises(ValueError, match="returns must be one of"):
        CalibrationError(returns=("ece", "mce"))
    with pytest.raises(ValueError, match="n_bins must be"):
        CalibrationError(n_bins=0)
