"""`benchmark_estimators` on a suite of a made-up network, and its summary by hand."""

import numpy as np
import pytest

from wildcal import suites
from wildcal.accuracy import EstimatedWindow, benchmark_estimators, get_estimator, summarize
from wildcal.accuracy.benchmark import draw_window
from wildcal.core.exceptions import InputError


@pytest.fixture(scope="module")
def suite():
    return suites.load("cifar10-resnet20")


@pytest.fixture(scope="module")
def windows(suite):
    return benchmark_estimators(suite, ["ac", "atc-ne"], settings=["whole", "32"], n_draws=1)


def test_each_shifted_calibration_split_is_estimated(suite, windows):
    shifted = [s for s in suite.calibration if s.is_shifted]
    for name in ("ac", "atc-ne"):
        whole = [w for w in windows if w.estimator == name and w.setting == "whole"]
        assert [w.split for w in whole] == [s.name for s in shifted]
        assert all(w.n_samples == s.n_samples for w, s in zip(whole, shifted, strict=True))
    assert len(windows) == 4 * len(shifted)


def test_values_and_truth_are_those_of_a_fit(suite, windows):
    first = next(w for w in windows if w.estimator == "ac" and w.setting == "whole")
    split = suite.split(first.split)
    source = next(s for s in suite.calibration if s.is_source)
    expected = get_estimator("ac").fit(source.logits, source.y).estimate(split.logits)
    assert first.value == pytest.approx(expected.value, abs=1e-9)
    assert first.accuracy == (split.logits.argmax(axis=1) == split.y).mean()


def test_atc_is_better_than_ac_under_corruptions(windows):
    rows = summarize(windows)
    assert [(r["setting"], r["estimator"]) for r in rows][:2] == [
        ("whole", "atc-ne"),
        ("whole", "ac"),
    ]


def test_summary_by_hand():
    def window(value, truth):
        return EstimatedWindow("ac", "whole", "s", 9, value, value - 0.1, value + 0.1, truth, False)

    (row,) = summarize([window(0.9, 0.7), window(0.6, 0.65), window(0.5, 0.5)])
    assert row["mae"] == pytest.approx(0.25 / 3)
    assert row["worst"] == pytest.approx(0.2)
    assert row["bias"] == pytest.approx(0.05)
    assert row["coverage"] == pytest.approx(2 / 3)
    assert row["spearman"] == pytest.approx(1.0)


def test_windows_of_other_class_frequencies():
    y = np.repeat(np.arange(5), 100)
    i = draw_window(y, "dirichlet-0.3", np.random.default_rng(0))
    assert len(i) == 256
    assert np.bincount(y[i], minlength=5).max() > 100
    assert len(np.unique(draw_window(y, "32", np.random.default_rng(0)))) == 32


def test_errors(suite):
    with pytest.raises(InputError, match="at least two kinds, got 0"):
        benchmark_estimators(suites.load("pacs-resnet18"))
    with pytest.raises(InputError, match="settings must be one of"):
        benchmark_estimators(suite, ["ac"], settings=["huge"])
