"""Matched confidence: the temperature against a plain search, and what bad windows are told."""

import warnings

import numpy as np
import pytest

from wildcal._old.accuracy import make_estimator
from wildcal._old.calibrators import make_calibrator
from wildcal._old.core.errors import CalibrationWarning, FileFormatError
from wildcal._old.core.rows import Rows
from wildcal._old.io.artifact import load, save
from wildcal._old.testing import make_suite
from wildcal._old.window import (
    MATCHABLE,
    MatchedConfidence,
    WindowReading,
    matched_temperature,
    mean_confidence_at,
)

SUITE = make_suite(5, n_classes=4, n_tuning=600, n_ood_tuning=0, n_test=500)
Z, Y = SUITE.tuning
WINDOW = SUITE.shifted.logits[300:]
LOGITS = np.concatenate([Z, SUITE.shifted.logits])
LABELS = np.concatenate([Y, SUITE.shifted.y])
GROUPS = np.repeat(np.arange(6), [600, 100, 100, 100, 100, 100])


def fitted(name):
    method = make_calibrator(name)
    if "environment" in method.reads:
        return method.fit(LOGITS, LABELS, environment=GROUPS)
    return method.fit(Z, Y)


def plain_mean_confidence(logits, temperature):
    z = logits.astype(float)
    p = np.exp((z - z.max(axis=1, keepdims=True)) / temperature)
    return (p.max(axis=1) / p.sum(axis=1)).mean()


@pytest.mark.parametrize("level", [0.3, 0.55, 0.8, 0.97])
def test_the_temperature_is_that_of_a_grid(level):
    grid = np.exp(np.linspace(-4, 5, 901))
    means = np.array([plain_mean_confidence(WINDOW, t) for t in grid])
    near = np.log(grid[np.abs(means - level).argmin()])
    found = matched_temperature(WINDOW, level)
    assert abs(np.log(found) - near) <= 0.01
    assert mean_confidence_at(WINDOW, found) == pytest.approx(level, abs=1e-6)


def test_levels_that_no_confidence_has():
    assert matched_temperature(WINDOW, 0.0) == matched_temperature(WINDOW, 0.251)
    assert matched_temperature(WINDOW, 1.0) == matched_temperature(WINDOW, 0.9999)
    flat = np.full((5, 4), 3.0)
    assert matched_temperature(flat, 0.7) == 1.0
    two_left = np.where(np.arange(4) < 2, WINDOW, -np.inf)  # never below 1/2
    assert matched_temperature(two_left, 0.3) == pytest.approx(np.exp(5))
    tied = np.array([[1.0, 1.0, 0.0, 0.0]])  # never above 1/2
    assert matched_temperature(tied, 0.9) == pytest.approx(np.exp(-4))


@pytest.mark.parametrize(
    ("window", "temperature", "told"),
    [
        (np.where(np.arange(4) < 2, WINDOW, -np.inf), np.exp(5), "up to 148 makes the mean conf"),
        (1e4 * WINDOW, np.exp(5), "up to 148 makes the mean confidence as small"),
        (np.repeat(WINDOW[:, :2], 2, axis=1), np.exp(-4), "down to 0.018 makes the mean conf"),
        (np.full((5, 4), 3.0), 1.0, "the same at every temperature from 0.018 to 148"),
        (1e9 * np.eye(4), 1.0, "the same at every temperature from 0.018 to 148"),
    ],
)
def test_an_accuracy_that_no_temperature_gives_is_told(window, temperature, told, monkeypatch):
    method = fitted("match+atc-ne")
    level = 0.9 if temperature < 1 else 0.4
    monkeypatch.setattr(type(method.estimator_), "value", lambda self, logits: level)
    with pytest.warns(CalibrationWarning, match=f"match.atc-ne: .*{told}") as caught:
        around = method.context(window)
    assert len(caught) == 1
    assert around.numbers == pytest.approx((temperature,))
    both = Rows(np.concatenate([window, WINDOW]), window=np.repeat([0, 1], [len(window), 200]))
    with pytest.warns(CalibrationWarning, match=f"in 1 of 2 windows .*{told}"):
        method.bind(both)


@pytest.mark.parametrize("name", MATCHABLE)
def test_mean_confidence_is_the_estimate(name, tmp_path):
    method = fitted(f"match+{name}")
    around = method.context(WINDOW)
    mean = method.confidence(WINDOW, context=around).astype(float).mean()
    assert mean == pytest.approx(method.estimator_.estimate(WINDOW).value, abs=1e-5)
    save(method, tmp_path / "match.json")
    again = load(tmp_path / "match.json")
    assert again.name == f"match+{name}"
    assert again.context(WINDOW) == around
    assert again.describe() == method.describe()
    assert again.fit_ == method.fit_


def test_rows_alone_are_temperature_scaled():
    ts = make_calibrator("ts").fit(Z, Y)
    found = fitted("match+cot").confidence(WINDOW)
    np.testing.assert_allclose(found, ts.confidence(WINDOW), atol=1e-6)


def test_context_needs_no_environments():
    method = make_calibrator("match+context").fit(Z, Y)
    mean = method.confidence(WINDOW, context=method.context(WINDOW)).astype(float).mean()
    assert mean == pytest.approx(make_estimator("context").fit(Z, Y).value(WINDOW), abs=1e-6)
    assert "environment" in method.reads  # it learns from them where there are any


def test_another_class_mix_is_doubted_once_for_all_windows():
    method = fitted("match+cot")
    one = Z[Z.argmax(axis=1) == 2]
    with pytest.warns(CalibrationWarning, match="match.cot: the predicted classes differ"):
        method.context(one)
    rows = np.concatenate([one, Z[:200], one])
    window = np.repeat([0, 1, 2], [len(one), 200, len(one)])
    with pytest.warns(CalibrationWarning, match="in 2 of 3 windows the predicted") as caught:
        method.bind(Rows(rows, window=window))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted("match+atc-ne").context(one)  # assumes nothing of classes


def test_a_class_that_clean_rows_never_had():
    seen = Y != 3
    method = make_calibrator("match+cot").fit(Z[seen], Y[seen])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        around = method.context(WINDOW)
    assert 0 < around.numbers[0] < 150


def test_weights_count_rows():
    weight = np.where(np.arange(len(Y)) % 3 == 0, 2.0, 1.0)
    double = np.repeat(np.arange(len(Y)), weight.astype(int))
    method, twice = (make_calibrator("match+atc-ne") for _ in range(2))
    method.fit(Z, Y, sample_weight=weight)
    twice.fit(Z[double], Y[double])
    assert method.context(WINDOW).numbers == pytest.approx(twice.context(WINDOW).numbers)
    with pytest.raises(ValueError, match="whole numbers for match.atc-ne"):
        method.fit(Z, Y, sample_weight=weight / 3)


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="estimator must be"):
        MatchedConfidence(estimator="gde").fit(Z, Y)
    method = fitted("match+cot")
    with pytest.raises(ValueError, match="that of match.ac"):
        method.confidence(WINDOW, context=fitted("match+ac").context(WINDOW))
    with pytest.raises(ValueError, match="that of float"):
        method.confidence(WINDOW, context=1.5)
    with pytest.raises(ValueError, match="temperature of the context"):
        method.confidence(WINDOW, context=WindowReading("match+cot", 3, (0.0,)))
    save(method, tmp_path / "match.json")
    text = (tmp_path / "match.json").read_text()
    (tmp_path / "match.json").write_text(text.replace('"prior_"', '"prior"'))
    with pytest.raises(FileFormatError, match="was changed after"):
        load(tmp_path / "match.json")
