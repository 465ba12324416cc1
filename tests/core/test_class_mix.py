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
