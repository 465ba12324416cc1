"""Properties of metrics for random inputs (hypothesis)."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wildcal import metrics as m

few = settings(max_examples=60, deadline=None)

# Multiples of 1/60 hit the edges of 2 to 15 bins and tie often; other numbers do neither.
unit = st.one_of(st.integers(0, 60).map(lambda i: i / 60), st.floats(0, 1))


@st.composite
def pairs(draw, least=1, most=60):
    n = draw(st.integers(least, most))
    confidence = draw(arrays(np.float64, n, elements=unit))
    return draw(arrays(np.bool_, n)), confidence


@st.composite
def samples(draw):
    n, n_classes = draw(st.integers(1, 25)), draw(st.sampled_from([2, 3, 7, 30]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(n_classes, draw(st.sampled_from([0.1, 1.0, 5.0]))), n)
    y = rng.integers(-1, n_classes, n)
    y[0] = 0  # at least one in-distribution sample
    return y, proba, rng


TOP_LABEL = [
    *(m.ece, m.mce, m.ks_error, m.top_label_brier, m.accuracy, m.aurc),
    lambda y, proba: m.ece(y, proba, strategy="quantile"),
]
ALL_CLASSES = [m.classwise_ece, m.nll, m.brier_score]


@few
@given(pairs(), st.integers(1, 40))
def test_range_and_order_of_binned_errors(pair, n_bins):
    low = abs(m.mean_confidence(*pair) - m.accuracy(*pair))
    middle, high = m.ece(*pair, n_bins=n_bins), m.mce(*pair, n_bins=n_bins)
    assert 0 <= middle <= 1
    assert low - 1e-12 <= middle <= high + 1e-12
    assert high <= 1


@few
@given(pairs(), st.integers(1, 8), st.integers(2, 6))
def test_merging_bins_cannot_raise_ece(pair, n_bins, factor):
    _, confidence = pair
    coarse = np.linspace(0, 1, n_bins + 1)
    fine = np.linspace(0, 1, n_bins * factor + 1)
    # The two grids share their edges but for a rounding; skip points inside such a gap.
    gap = np.abs(fine[::factor] - coarse)
    assume(not np.any((gap > 0) & (np.abs(confidence[:, None] - coarse) <= gap + 1e-15)))
    assert m.ece(*pair, n_bins=n_bins) <= m.ece(*pair, n_bins=n_bins * factor) + 1e-12


@few
@given(pairs())
def test_bounds_of_ks(pair):
    correct, confidence = pair
    low = abs(m.mean_confidence(*pair) - m.accuracy(*pair))
    _, group = np.unique(confidence, return_inverse=True)
    finest = np.abs(np.bincount(group, confidence - correct)).sum() / len(correct)
    assert low - 1e-12 <= m.ks_error(*pair) <= finest + 1e-12


@few
@given(pairs())
def test_noise_floor_is_small_and_needs_no_labels(pair):
    _, confidence = pair
    floor = m.noise_floor(confidence)
    # E|X - μ| <= sqrt(variance), bin by bin, and the whole by Cauchy-Schwarz.
    bound = np.sqrt(15 * (confidence * (1 - confidence)).sum()) / len(confidence)
    assert -1e-15 <= floor <= bound + 1e-12


@few
@given(pairs(least=2), st.integers(0, 2**32 - 1))
def test_order_of_samples_is_irrelevant(pair, seed):
    correct, confidence = pair
    order = np.random.default_rng(seed).permutation(len(correct))
    for metric in TOP_LABEL:
        shuffled = metric(correct[order], confidence[order])
        assert shuffled == pytest.approx(metric(*pair), abs=1e-12)


@few
@given(samples())
def test_order_of_samples_and_classes_is_irrelevant(drawn):
    y, proba, rng = drawn
    order, classes = rng.permutation(len(y)), rng.permutation(proba.shape[1])
    renamed = np.where(y >= 0, np.argsort(classes)[y], -1)
    for metric in [*TOP_LABEL, *ALL_CLASSES]:
        value = metric(y, proba)
        assert metric(y[order], proba[order]) == pytest.approx(value, abs=1e-12)
        assert metric(renamed, proba[:, classes]) == pytest.approx(value, abs=1e-12)


@few
@given(samples())
def test_per_sample_mean_is_the_score(drawn):
    y, proba, _ = drawn
    assert m.nll_per_sample(y, proba).mean() == pytest.approx(m.nll(y, proba), abs=1e-12)
    assert m.brier_per_sample(y, proba).mean() == pytest.approx(m.brier_score(y, proba), abs=1e-12)
    each = m.top_label_brier_per_sample(y, proba)
    assert each.mean() == pytest.approx(m.top_label_brier(y, proba), abs=1e-12)
    assert 0 <= m.brier_score(y, proba) <= 2
    assert 0 <= m.classwise_ece(y, proba) <= 1


@few
@given(pairs(least=2))
def test_detection_depends_on_ranks_alone(pair):
    flags, scores = pair
    assume(flags.any() and not flags.all())
    ranks = np.unique(scores, return_inverse=True)[1].astype(np.float64)
    for metric in (m.auroc, m.aupr_in, m.aupr_out, m.fpr95):
        value = metric(flags, scores)
        assert 0 <= value <= 1
        assert metric(flags, ranks) == value
    assert m.auroc(~flags, -scores) == pytest.approx(m.auroc(flags, scores), abs=1e-12)
    assert m.auroc(flags, -scores) == pytest.approx(1 - m.auroc(flags, scores), abs=1e-12)
    assert m.aupr_out(flags, scores) == pytest.approx(m.aupr_in(~flags, -scores), abs=1e-12)
