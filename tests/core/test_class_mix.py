"""When predicted classes refute the clean class mix: the arithmetic by hand."""

import numpy as np
import pytest

from wildcal.core.class_mix import (
    DEFAULT_SLOPE,
    chance_distance,
    class_distance,
    slope_of,
    unexplained,
)

CLEAN = np.array([500, 300, 200])


def test_distance_by_hand():
    # shares .2 .3 .5 against .5 .3 .2  ->  (.3 + 0 + .3) / 2
    assert class_distance(np.array([20, 30, 50]), CLEAN) == pytest.approx(0.3)
    assert class_distance(CLEAN, CLEAN) == 0


def test_chance_by_hand():
    q = np.array([0.5, 0.3, 0.2])
    mean = 0.5 * np.sqrt(q * (1 - q) * (1 / 100 + 1 / 1000)).sum()
    assert chance_distance(100, CLEAN) == pytest.approx(mean + np.sqrt(np.log(100) / 200))


def test_what_lost_confidence_explains_is_taken_off():
    counts = np.array([20, 30, 50])
    left = 0.3 - chance_distance(100, CLEAN)
    assert unexplained(counts, CLEAN, 0.0, 0.0, 2.0) == pytest.approx(left)
    assert unexplained(counts, CLEAN, -0.5, 0.0, 2.0) == pytest.approx(left)
    assert unexplained(counts, CLEAN, 0.04, 0.01, 2.0) == pytest.approx(left - 2 * 0.0564)


def test_the_slope_is_a_quarter_more_than_the_steepest_and_at_least_one():
    counts = np.array([2000, 3000, 5000])
    steep = (0.3 - chance_distance(10_000, CLEAN)) / (0.1 + 1.64 * 0.01)
    flat = (CLEAN * 10, 0.1, 0.01)
    assert slope_of([flat, (counts, 0.1, 0.01)], CLEAN) == pytest.approx(1.25 * steep)
    assert slope_of([flat], CLEAN) == 1.0
    assert slope_of([], CLEAN) == DEFAULT_SLOPE == 2.0
    # A fall that is none counts as a thousandth.
    far = (0.3 - chance_distance(10_000, CLEAN)) / 1e-3
    assert slope_of([(counts, -0.5, 0.0)], CLEAN) == pytest.approx(1.25 * far)


def test_one_class_of_a_hundred_in_a_few_rows_refutes_the_mix():
    """Chance may move the classes of 33 rows anywhere, but it does not make them all one."""
    clean, one = np.full(100, 50), np.bincount([7] * 33, minlength=100)
    assert chance_distance(33, clean) > 1
    assert unexplained(one, clean, 0.0, 0.0, 2.0) == pytest.approx(1 - 51 / 5100)
    # So much lost confidence may well drive all rows into one class.
    assert unexplained(one, clean, 0.5, 0.0, 2.0) == -1


def test_few_rows_of_the_clean_mix_hardly_ever_refute_it():
    rng, clean = np.random.default_rng(0), np.full(100, 50)
    drawn = rng.multinomial(33, np.full(100, 0.01), size=2000)
    assert np.mean([unexplained(counts, clean, 0.0, 0.0, 2.0) > 0 for counts in drawn]) < 0.01
    pair = np.bincount([3, 3, *range(10, 41)], minlength=100)
    assert unexplained(pair, clean, 0.0, 0.0, 2.0) < 0
