"""Every registered metric: weights, replicates, order of samples, input errors."""

import tracemalloc

import numpy as np
import pytest

from wildcal import metrics as m
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.metrics._scores import check_scores
from wildcal.metrics.registry import METRICS, get_metric, get_metrics

# Share a value between replicates: the noise floor and the bandwidth.
SHARED = {"excess_ece", "kde_ece"}
PUBLIC = [
    *(m.ece, m.mce, m.excess_ece, m.kde_ece, m.ks_error, m.debiased_l2_ce, m.accuracy),
    *(m.mean_confidence, m.aurc, m.top_label_brier, m.classwise_ece, m.nll, m.brier_score),
]


@pytest.fixture(params=METRICS.values(), ids=list(METRICS))
def metric(request):
    return request.param


@pytest.fixture
def samples(metric, make_samples):
    y, proba = make_samples(300, 2 if metric.needs == "binary" else 4, ood=0.2)
    proba[::3] = np.round(proba[::3], 1)  # ties
    proba /= proba.sum(axis=1, keepdims=True)
    return y, proba


def test_weights_are_counts(metric, samples):
    y, proba = samples
    counts = np.random.default_rng(1).integers(1, 4, len(y))
    weighted = check_scores(y, proba, counts)
    repeated = check_scores(np.repeat(y, counts), np.repeat(proba, counts, axis=0))
    expected = metric.of(repeated, repeated.weight)
    assert metric.of(weighted, weighted.weight) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_replicates_are_the_metric_itself(metric, samples):
    scores = check_scores(*samples)
    weights = np.random.default_rng(2).poisson(1, (len(scores), 5)).astype(float)
    values = metric.of(scores, weights)
    assert values.shape == (5,)
    if metric.name in SHARED:
        return
    alone = [metric.of(scores, w) for w in weights.T]
    np.testing.assert_allclose(values, alone, rtol=1e-7, atol=1e-9)


def test_order_of_samples_is_irrelevant(metric, samples):
    scores = check_scores(*samples)
    mixed = scores.subset(np.random.default_rng(3).permutation(len(scores)))
    assert metric.of(mixed, mixed.weight) == pytest.approx(
        metric.of(scores, scores.weight), rel=1e-9, abs=1e-12
    )


def test_unknown_and_renamed_names():
    with pytest.raises(InputError, match="Unknown metric 'ecs'. Did you mean 'ece'"):
        get_metric("ecs")
    with pytest.raises(InputError, match="'sce' was renamed 'classwise_ece' in 0.2"):
        get_metric("sce")


def test_names_in_capitals_and_one_text():
    assert get_metric("ECE") is METRICS["ece"]
    assert m.bootstrap_ci("ECE", np.array([True, False]), [0.5, 0.5], n_bootstrap=2).value == 0
    with pytest.raises(InputError, match="metrics must be a list of names, got 'ece'"):
        get_metrics("ece")


@pytest.mark.parametrize("function", PUBLIC)
def test_input_errors(function):
    with pytest.raises(InputError, match=r"proba must lie in \[0, 1\]"):
        function([0, 1], np.array([[2.0, 3], [4, 5]]))
    with pytest.raises(InputError, match=r"proba must sum to 1 .* got 0.7 at index 1"):
        function([0, 1], np.array([[0.5, 0.5], [0.4, 0.3]]))
    with pytest.raises(InputError, match=r"y must lie in \[0, 1\], got \[0, 2\]"):
        function([0, 2], np.array([[0.5, 0.5], [0.4, 0.6]]))
    with pytest.raises(InputError, match=r"y must have one label per sample"):
        function([0], np.array([[0.5, 0.5], [0.4, 0.6]]))
    with pytest.raises(InputError, match="y must be booleans .* np.column_stack"):
        function([0, 1], [0.5, 0.4])
    with pytest.raises(InputError, match="proba must be finite, got nan at index 1"):
        function([0, 1], np.array([[0.5, 0.5], [np.nan, 0.6]]))


def test_metrics_of_probabilities_refuse_confidences():
    with pytest.raises(InputError, match="one number per sample"):
        m.nll(np.array([True, False]), [0.5, 0.4])


def test_scores_that_are_not_counts_warn():
    with pytest.warns(CalibrationWarning, match="the weights are not counts"):
        m.ece(np.ones(20, bool), np.full(20, 0.5), sample_weight=np.full(20, 1 / 20))


def test_float32_and_float16_are_accepted(make_samples):
    y, proba = make_samples(500, 5)
    for dtype, tolerance in ((np.float32, 1e-5), (np.float16, 5e-3)):
        assert m.nll(y, proba.astype(dtype)) == pytest.approx(m.nll(y, proba), abs=tolerance)


def test_float32_probabilities_are_not_copied_as_a_whole():
    proba = np.full((200_000, 40), 1 / 40, dtype=np.float32)
    tracemalloc.start()
    m.brier_score(np.zeros(len(proba), int), proba)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < proba.nbytes
