"""An estimator that assumes the clean class mix says so where the window refutes it."""

import warnings

import numpy as np
import pytest

from wildcal._old.accuracy import ESTIMATORS
from wildcal._old.core.class_mix import chance_distance, class_distance, slope_of, unexplained
from wildcal._old.core.errors import CalibrationWarning

ASSUMING = [name for name, kind in ESTIMATORS.items() if kind.assumes_clean_class_mix]


def test_who_assumes_it():
    assert ASSUMING == ["cot", "cott"]


def test_distance_by_hand():
    assert class_distance(np.array([3, 1]), np.array([50, 50])) == pytest.approx(0.25)


def test_chance_exceeds_its_bound_at_most_once_in_a_hundred():
    rng = np.random.default_rng(0)
    share = np.array([0.4, 0.3, 0.2, 0.1])
    for n in (8, 32, 200):
        clean = rng.multinomial(1000, share, 2000)
        counts = rng.multinomial(n, share, 2000)
        beyond = [class_distance(a, b) > chance_distance(n, b)
                  for a, b in zip(counts, clean, strict=True)]  # fmt: skip
        assert np.mean(beyond) <= 0.01


def test_lost_confidence_explains_some():
    clean, counts = np.array([500, 500]), np.array([800, 200])
    assert unexplained(counts, clean, 0.0, 0.0, 2.0) > 0
    assert unexplained(counts, clean, 0.2, 0.0, 2.0) < 0
    assert unexplained(counts, clean, -0.5, 0.0, 2.0) == unexplained(counts, clean, 0.0, 0.0, 2.0)


def test_environments_set_the_slope():
    clean = np.array([500, 500])
    cell = (np.array([800, 200]), 0.1, 0.0)
    slope = slope_of([cell], clean)
    assert slope == pytest.approx(1.25 * (0.3 - chance_distance(1000, clean)) / 0.1)
    assert unexplained(*cell[:1], clean, *cell[1:], slope) < 0
    assert slope_of([], clean) == 2.0
    assert slope_of([(clean, 0.1, 0.0)], clean) == 1.0


@pytest.mark.parametrize("name", ASSUMING)
def test_other_mixes_are_noticed(name, fitted, rows):
    """Clean rows of two classes: the mix moved, and confidence did not fall."""
    z, y, _ = rows(seed=11)
    said = f"^{name}: the predicted classes .* assumes the clean class mix. Use atc-ne"
    with pytest.warns(CalibrationWarning, match=said):
        fitted[name].estimate(z[y < 2])


@pytest.mark.parametrize("name", ASSUMING)
@pytest.mark.parametrize("fall", [0.0, 0.3, 0.5, 0.6])
@pytest.mark.parametrize("n", [4, 40, 400])
def test_shifted_rows_of_the_clean_mix_are_not(name, fall, n, fitted, rows):
    z, _, _ = rows(seed=12, n=n, fall=(fall,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted[name].estimate(z)


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if n not in ASSUMING and n != "gde"])
def test_others_do_not_warn(name, fitted, rows):
    z, y, _ = rows(seed=11)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted[name].estimate(z[y < 2])
