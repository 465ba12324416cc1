"""One row has a path of its own, with the bits and the complaints of all the others."""

import numpy as np
import pytest

from wildcal import CALIBRATORS, TemperatureScaling

SIZES = [2, 10, 63, 64, 100, 1000]
METHODS = ["identity", "ts", "ets", "energy", "irm", "irova", "irovats", "isotonic"]


def fitted(name, k, dtype=np.float32):
    rng = np.random.default_rng(k)
    y = rng.integers(0, k, 400)
    z = (2 * rng.standard_normal((400, k))).astype(dtype)
    z[np.arange(400), y] += rng.normal(3, 2, 400).astype(dtype)
    return CALIBRATORS[name]().fit(z, y), z


def assert_same(a, b):
    assert a.dtype == b.dtype
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("k", [10, 100])
def test_a_row_alone_has_the_bits_it_has_in_a_batch(name, k, dtype):
    method, z = fitted(name, k, dtype)
    z[3, 1], z[4] = -np.inf, 1e30
    whole, confidence, columns = method.predict_proba(z), method.confidence(z), method.apply(z)
    for i in (0, 3, 4, 200):
        row = z[i : i + 1]
        assert_same(method.predict_proba(row), whole[i : i + 1])
        assert_same(method.confidence(row), confidence[i : i + 1])
        for column, values in method.apply(row).items():
            assert_same(values, columns[column][i : i + 1])
    few = slice(7, 12)
    assert_same(method.predict_proba(z[few]), whole[few])


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("name", ["ts", "energy"])
def test_of_any_length_and_layout(name, k):
    method, z = fitted(name, k)
    wide = np.zeros((400, 2 * k), np.float32)
    wide[:, ::2] = z
    half = z.astype(np.float16)
    for source in (wide[:, ::2], half, z.astype(np.float64)):
        assert_same(method.predict_proba(source[9:10]), method.predict_proba(source)[9:10])


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, r"\+inf")])
@pytest.mark.parametrize("name", METHODS)
def test_complaints_are_the_same(name, value, word):
    method, z = fitted(name, 10)
    row = z[:1].copy()
    row[0, 4] = value
    with pytest.raises(ValueError, match=f"row 0 holds {word}"):
        method.predict_proba(row)
    with pytest.raises(ValueError, match="10 columns"):
        method.predict_proba(row[:, :9])


def test_nothing_warns_near_the_largest_float():
    row = np.array([[3e38, -3e38, 0.0]], np.float32)
    method = TemperatureScaling().fit(np.eye(3)[[0, 0, 1]] * 3, [0, 1, 1])
    np.testing.assert_array_equal(method.predict_proba(row), [[1, 0, 0]])


def test_a_second_fit_is_not_answered_from_the_first_ones_table():
    method, z = fitted("irova", 10)
    first = method.predict_proba(z)
    again = method.fit(z, (z.argmax(axis=1) + (np.arange(400) % 3 == 0)) % 10).predict_proba(z)
    assert not np.array_equal(first, again)


@pytest.mark.parametrize("name", ["irm", "irova", "irovats"])
def test_a_map_that_is_kept_serves_both_precisions(name):
    method, z = fitted(name, 10)
    kept = method.row_map()
    for row in (z[:1], z[:1].astype(np.float64)):
        assert_same(kept.proba(row), method.predict_proba(np.repeat(row, 3, axis=0))[:1])
