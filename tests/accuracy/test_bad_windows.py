"""Windows that break other programs: a defined answer, or one clear line."""

import warnings

import numpy as np
import pytest

from wildcal._old.accuracy import ESTIMATORS
from wildcal._old.core.errors import CalibrationWarning

NAMES = list(ESTIMATORS)


def ask(estimator, window):
    second = window[:, ::-1] if estimator.needs_second else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return estimator.estimate(window, second)


def defined(found):
    return 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("name", NAMES)
def test_one_row(name, fitted, window):
    assert defined(ask(fitted[name], window[0][:1]))


@pytest.mark.parametrize("name", NAMES)
def test_identical_rows(name, fitted, window):
    found = ask(fitted[name], np.repeat(window[0][:1], 100, axis=0))
    assert defined(found)


@pytest.mark.parametrize("name", NAMES)
def test_all_of_one_class(name, fitted, window):
    rows = window[0][window[0].argmax(axis=1) == 2]
    assert defined(ask(fitted[name], rows))


@pytest.mark.parametrize("name", NAMES)
def test_equal_logits(name, fitted):
    assert defined(ask(fitted[name], np.zeros((20, 4))))


@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_is_ruled_out(name, fitted, window):
    rows = window[0].copy()
    rows[:, 3] = -np.inf
    assert defined(ask(fitted[name], rows))


@pytest.mark.parametrize("size", [1e100, 1e155, 1e200, 1e300])
@pytest.mark.parametrize("name", NAMES)
def test_logits_whose_squares_no_float_holds(name, size, fitted, window):
    found = ask(fitted[name], size * window[0])
    assert defined(found)


@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_clean_rows_never_had(name, tuning, window):
    z, y, environment, second = tuning
    known = y != 3
    kind = ESTIMATORS[name]
    other = second[known] if kind.needs_second else None
    estimator = kind().fit(z[known], y[known], environment[known], second=other)
    assert defined(ask(estimator, window[0]))


@pytest.mark.filterwarnings("ignore:.*points below the next environment")
@pytest.mark.parametrize("name", NAMES)
def test_more_classes_than_rows(name, rows):
    z, y, environment = rows(n=60, n_classes=80, fall=(0.0, 0.2, 0.4, 0.6))
    kind = ESTIMATORS[name]
    estimator = kind().fit(z, y, environment, second=z[:, ::-1] if kind.needs_second else None)
    assert defined(ask(estimator, z[:30]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "row 7 holds NaN"), (np.inf, r"row 7 holds \+inf")]
)
def test_no_numbers(name, value, words, fitted, window):
    rows = window[0].copy()
    rows[7, 1] = value
    with pytest.raises(ValueError, match=words) as caught:
        ask(fitted[name], rows)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("window", "words"),
    [
        (np.zeros((3, 5)), "logits must have 4 columns, as in fit, got 5"),
        (np.zeros((0, 4)), "at least one row"),
        (np.zeros(4), "must have shape"),
        (np.full((20, 4), 0.25), "these are probabilities"),
    ],
)
def test_other_things_than_logits(name, window, words, fitted):
    with pytest.raises(ValueError, match=words):
        fitted[name].estimate(window, window if ESTIMATORS[name].needs_second else None)


def test_second_networks(fitted, window):
    first, second, _ = window
    with pytest.raises(ValueError, match="compares two networks; pass second="):
        fitted["gde"].estimate(first)
    with pytest.raises(ValueError, match="second must have 200 rows, as logits, got 10"):
        fitted["gde"].estimate(first, second[:10])
    with pytest.raises(ValueError, match="second: logits must have 4 columns"):
        fitted["gde"].estimate(first, second[:, :3])
    with pytest.raises(ValueError, match="ac reads one network; leave out second="):
        fitted["ac"].estimate(first, second)


@pytest.mark.parametrize("name", NAMES)
def test_labels_that_cannot_be(name, tuning):
    z, y, environment, second = tuning
    kind = ESTIMATORS[name]
    other = second if kind.needs_second else None
    with pytest.raises(ValueError, match="y must have one label per row"):
        kind().fit(z, y[:-1], environment, second=other)
    with pytest.raises(ValueError, match="environment must have shape"):
        kind().fit(z, y, environment[:-1], second=other)
    with pytest.raises(ValueError, match="environment 0, the clean one"):
        kind().fit(z, y, environment + 1, second=other)
    with pytest.raises(ValueError, match="y must have some in-distribution rows"):
        kind().fit(z, np.full_like(y, -1), environment, second=other)
