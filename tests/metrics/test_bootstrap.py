import json

import numpy as np
import pytest

from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.metrics import (
    auroc,
    bootstrap,
    ece,
    ece_interval,
    mean_interval,
    nll_per_sample,
    paired_difference,
)


def shifted(n, shift, seed=0):
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.5, 0.9, n)
    return rng.random(n) < confidence - shift, confidence


def test_mean_interval_is_that_of_the_normal_law():
    values = np.random.default_rng(0).normal(3, 2, 2000)
    result = mean_interval(values, n_boot=500)
    half = 1.96 * values.std() / np.sqrt(2000)
    assert result.value == pytest.approx(values.mean())
    assert result.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert result.high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_basic_interval_by_hand():
    # A statistic that is 10 on the data and counts 0, 1, 2, ... on the resamples: 20 - quantiles.
    calls = iter([10.0, *range(101)])
    result = bootstrap(lambda rows: next(calls), np.arange(5), n_boot=101, level=0.8)
    assert (result.value, result.low, result.high) == (10, 20 - 90, 20 - 10)
    assert result.debiased == 20 - 50


def test_ece_interval_is_deterministic_and_matches_the_general_one():
    correct, confidence = shifted(300, 0.1)
    first = ece_interval(correct, confidence, n_boot=50)
    assert first == ece_interval(correct, confidence, n_boot=50)
    assert first != ece_interval(correct, confidence, n_boot=50, rng=np.random.default_rng(1))
    general = bootstrap(ece, correct, confidence, n_boot=50)
    assert first.value == pytest.approx(ece(correct, confidence), abs=1e-15)
    assert first.low == pytest.approx(general.low, abs=1e-12)
    assert first.high == pytest.approx(general.high, abs=1e-12)
    assert first.debiased == pytest.approx(general.debiased, abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.08])
def test_ece_interval_covers_the_true_error(shift):
    results = [ece_interval(*shifted(500, shift, seed), n_boot=100) for seed in range(60)]
    assert sum(r.low <= shift <= r.high for r in results) >= 50  # 95 % nominal
    if shift == 0:  # where the bias is largest: all of the value is noise
        assert np.mean([r.debiased for r in results]) < 0.8 * np.mean([r.value for r in results])


def test_ece_interval_reaches_zero_unless_calibration_is_refuted():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 0.9, 400)
    assert ece_interval(rng.random(400) < confidence, confidence, n_boot=100).low == 0
    assert ece_interval(rng.random(400) < confidence - 0.2, confidence, n_boot=100).low > 0.1


def test_ece_interval_stays_in_range(make_rows):
    y, proba = make_rows(40, 3)
    result = ece_interval(y, proba, n_boot=50)
    assert 0 <= result.low <= result.high <= 1


def test_paired_difference_sees_what_separate_intervals_cannot():
    correct, confidence = shifted(1000, 0.1)
    result = paired_difference(correct, confidence - 0.02, correct, confidence, n_boot=200)
    assert result.high < 0
    assert result.probability_a_better > 0.95
    back = paired_difference(correct, confidence, correct, confidence - 0.02, n_boot=200)
    assert back.value == pytest.approx(-result.value)
    assert back.low == pytest.approx(-result.high)
    assert back.probability_a_better == pytest.approx(1 - result.probability_a_better)
    a, b = (ece_interval(correct, confidence - d, n_boot=200) for d in (0.02, 0))
    assert a.high > b.low


def test_a_method_ties_with_itself():
    pair = shifted(100, 0.1)
    result = paired_difference(*pair, *pair, n_boot=20)
    assert (result.value, result.low, result.high) == (0, 0, 0)
    assert result.probability_a_better == 0.5


def test_resamples_of_one_kind_are_left_out():
    flags = np.array([True, False, False])
    result = bootstrap(auroc, flags, np.array([0.9, 0.2, 0.4]), n_boot=100)
    assert 0 < result.n_boot < 100
    assert result.value == 1.0


def test_results_are_plain(make_rows):
    result = mean_interval(nll_per_sample(*make_rows(50, 3)), n_boot=20)
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()


def test_empty_and_bad_input():
    empty = np.empty(0, dtype=bool), np.empty(0)
    for make in (
        lambda: ece_interval(*empty),
        lambda: mean_interval([]),
        lambda: bootstrap(np.mean, []),
        lambda: paired_difference(*empty, *empty),
    ):
        with pytest.warns(CalibrationWarning, match="NaN"):
            assert np.isnan(make().low)
    with pytest.raises(ValueError, match=r"equal length, got \(3,\), \(2,\)"):
        bootstrap(auroc, [1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        mean_interval([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match="n_boot must be a whole number of at least 2, got 1"):
        mean_interval([1.0, 2.0], n_boot=1)


def test_no_interval_excludes_its_own_value():
    """Where the resamples are all higher than the data, the basic interval would."""
    from wildcal._old.metrics.interval import basic_interval

    above = basic_interval(0.10, np.linspace(0.12, 0.15, 100), 0.95, 0, 1)
    assert above.low < above.high == above.value == 0.10
    below = basic_interval(0.10, np.linspace(0.05, 0.08, 100), 0.95, 0, 1)
    assert below.value == below.low < below.high
    for seed in range(20):
        result = ece_interval(*shifted(200, 0.0, seed), n_boot=50)
        assert result.low <= result.value <= result.high
