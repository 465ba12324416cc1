"""Intervals: what the draw of rows does, and what left-out environments show."""

import math

import numpy as np
import pytest

from wildcal._old.accuracy import ESTIMATORS
from wildcal._old.accuracy.errors import Errors, folds, measure
from wildcal._old.accuracy.estimate import AccuracyEstimate, interval
from wildcal._old.accuracy.rows import Rows


def test_interval_by_hand():
    low, high = interval(0.8, 0.0009, 0.04)  # √(0.03² + 0.04²) = 0.05
    assert low == pytest.approx(0.8 - 1.959964 * 0.05, abs=1e-6)
    assert high == pytest.approx(0.8 + 1.959964 * 0.05, abs=1e-6)
    assert interval(0.99, 0.01, 0.0)[1] == 1.0
    assert interval(0.01, 0.01, 0.0)[0] == 0.0


def test_words():
    better = AccuracyEstimate(0.95, 0.9, 0.99, n=10, clean_accuracy=0.9, method="ac")
    assert str(better) == "95.0 % (90.0 to 99.0), 5.0 points above clean"


def test_error_by_size_and_fall():
    errors = Errors(np.array([10, 1000]), np.array([0.2, 0.1]), 0.5)
    assert errors.at(10, 0.0) == pytest.approx(0.2)
    assert errors.at(100, 0.0) == pytest.approx(0.15)
    assert errors.at(1, 0.0) == pytest.approx(0.2)
    assert errors.at(10**6, 0.0) == pytest.approx(0.1)
    assert errors.at(1000, 0.2) == pytest.approx(np.hypot(0.1, 1.4 * 0.5 * 0.2))


def test_neighbors_are_left_out_together():
    assert folds([1, 2, 3]) == [[1], [2], [3]]
    assert folds(list(range(1, 11))) == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    assert folds([]) == []


def test_what_is_left_out_is_not_known():
    y = np.zeros(60, np.int64)
    logits = np.tile([1.0, 0.0], (60, 1))
    rows = Rows(logits, y, np.repeat([0, 1, 2], 20), None)
    seen = []

    def reader(left_out):
        seen.append(left_out)
        return lambda window: (0.7, 0.0)

    errors = measure(rows, reader, 0.5)
    assert seen == [[1], [2]]
    assert errors.sizes.tolist() == [20]
    assert errors.error == pytest.approx([0.3])  # all rows are right
    alone = measure(rows.of(0), reader, 0.5)
    assert alone.at(7, 0.2) == pytest.approx(1.4 * 0.5 * 0.2)


def test_each_environment_has_its_own_draws():
    """The same rows under several shifts: equal draws would all have the same luck."""
    y = np.zeros(100, np.int64)
    logits = np.column_stack([np.arange(100.0), np.zeros(100)])
    rows = Rows(np.tile(logits, (4, 1)), np.tile(y, 4), np.repeat(np.arange(4), 100), None)
    seen = []

    def read(window):
        seen.append(tuple(np.sort(window.logits[:, 0])))
        return 1.0, 0.0

    measure(rows, lambda left_out: read, 0.5)
    small = [rows for rows in seen if len(rows) == 32]
    assert len(small) == len(set(small)) == 6


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if n != "cott"])
def test_variance_is_that_of_the_bootstrap(name, fitted, window):
    logits, second, _ = window
    estimator = fitted[name]
    other = second if estimator.needs_second else None
    rng = np.random.default_rng(0)
    values = []
    for _ in range(80):  # the variance is then known to 16 %
        drawn = rng.integers(0, len(logits), len(logits))
        values.append(estimator._read(logits[drawn], None if other is None else other[drawn]).score)
    claimed = estimator._read(logits, other).variance
    factor = 2.0 if name == "context" else 1.5  # which draws a few itself
    assert np.var(values) / factor < claimed < factor * np.var(values)


def test_variance_is_at_most_wide(fitted, window):
    """Where the bootstrap is not to be had from sums, what is claimed is no less than it."""
    logits = window[0]
    rng = np.random.default_rng(0)
    estimator = fitted["cott"]
    values = [
        estimator._read(logits[rng.integers(0, len(logits), len(logits))], None).score
        for _ in range(100)
    ]
    assert np.var(values) < 1.5 * estimator._read(logits, None).variance


def test_larger_windows_have_narrower_intervals(fitted, window):
    for name in ("ac", "cot"):
        few, many = (fitted[name].estimate(window[0][:n]) for n in (20, 200))
        assert many.high - many.low < few.high - few.low


def test_the_interval_holds_on_environments_it_has_not_seen(rows):
    """Twenty new windows of other strengths: nearly all are inside."""
    z, y, environment = rows(fall=(0.0, 0.2, 0.3, 0.5, 0.7, 0.8))
    for name in ("atc-ne", "cot", "context"):
        estimator = ESTIMATORS[name]().fit(z, y, environment)
        held = 0
        for seed in range(20):
            window, labels, _ = rows(seed=100 + seed, n=100, fall=(seed / 25,))
            found = estimator.estimate(window)
            held += found.low <= (window.argmax(axis=1) == labels).mean() <= found.high
        assert held >= 19, name


def clean_draw(rng, n, sure):
    """Return rows of ten classes that are right nine times in ten; `sure`: and say so or not."""
    y = rng.integers(0, 10, n)
    z = rng.normal(size=(n, 10))
    z[np.arange(n), np.where(rng.random(n) < 0.1, rng.integers(0, 10, n), y)] += sure
    return z, y


@pytest.mark.parametrize("name", ["ac", "doc", "atc-mc", "atc-ne", "context"])
def test_clean_labels_are_a_draw_too(name):
    """A window far larger than the labels says nothing of which labels there happened to be."""
    held = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        estimator = ESTIMATORS[name]().fit(*clean_draw(rng, 200, 4.0))
        window, y = clean_draw(rng, 5000, 4.0)
        found = estimator.estimate(window)
        held += found.low <= (window.argmax(axis=1) == y).mean() <= found.high
    assert held >= 26


@pytest.mark.parametrize("name", ["cot", "cott"])
def test_what_chance_costs_is_in_the_interval(name):
    """Classes of two clean draws differ, and moving rows that are sure costs all they lead by."""
    held, off = 0, []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        estimator = ESTIMATORS[name]().fit(*clean_draw(rng, 400, 12.0))
        window, y = clean_draw(rng, 400, 12.0)
        found = estimator.estimate(window)
        right = (window.argmax(axis=1) == y).mean()
        off.append(found.value - right)
        held += found.low <= right <= found.high
    assert np.mean(off) < -0.02
    assert held >= 18


@pytest.mark.filterwarnings("ignore:TemperatureScaling")  # all right, or few: at its bound
def test_few_labels_that_are_all_right_do_not_make_certain():
    """Of 50 labels at an accuracy of 97 %, none is wrong in 22 of 100 draws."""
    n, accuracy = 50, 0.97
    logits = np.column_stack([np.linspace(1.0, 6.0, n), np.zeros(n)])
    held = 0.0
    for right in range(n + 1):
        y = (np.arange(n) < n - right).astype(np.int64)  # the least confident rows are wrong
        found = ESTIMATORS["atc-mc"]().fit(logits, y).estimate(np.tile(logits, (100, 1)))
        chance = math.comb(n, right) * accuracy**right * (1 - accuracy) ** (n - right)
        held += chance * (found.low <= accuracy <= found.high)
    assert held > 0.94
