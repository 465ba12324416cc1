"""Tables: against NumPy's searchsorted and interp, on every array library."""

import numpy as np
import pytest
from array_api_compat import array_namespace

from wildcal.core import piecewise

RNG = np.random.default_rng(0)


def table(m, seed=0):
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(0, 1, m)), rng.uniform(0, 1, m)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 8, 40, 200])
def test_pad(m):
    knots, values = table(m)
    padded, filled = piecewise.pad(knots, np.append(values, 2.0))
    size = len(padded)
    assert size >= m
    assert (size + 1) & size == 0  # a power of two minus one
    assert np.isinf(padded[m:]).all()
    assert (filled[m:] == 2.0).all()
    assert len(filled) == size + 1


@pytest.mark.parametrize("library", ["numpy", "array_api_strict", "torch", "dask.array"])
@pytest.mark.parametrize("m", [1, 2, 7, 100])
def test_one_table(m, library):
    make = pytest.importorskip(library).asarray
    knots, values = table(m)
    x = np.concatenate([RNG.uniform(-0.1, 1.1, 97), knots[:3]])[:, None]
    xp = array_namespace(make(x))
    padded, filled = piecewise.pad(knots, np.append(values, 0.5))
    got = piecewise.step_function(xp, make(x), make(padded), make(filled))
    expected = np.append(values, 0.5)[np.searchsorted(knots, x, side="right")]
    np.testing.assert_array_equal(np.asarray(got), expected)
    columns = piecewise.pad(knots, values, piecewise.slopes(knots, values))
    got = piecewise.interpolate(xp, make(x), *(make(column) for column in columns))
    np.testing.assert_allclose(np.asarray(got), np.interp(x, knots, values), atol=1e-12)


@pytest.mark.parametrize("library", ["numpy", "array_api_strict", "torch", "dask.array"])
@pytest.mark.parametrize("n", [1, 3, 200])
def test_a_table_for_each_class(n, library):
    make = pytest.importorskip(library).asarray
    tables = [table(m, seed=m) for m in (1, 5, 30, *[4] * 70)]
    x = RNG.uniform(-0.1, 1.1, (n, len(tables)))
    stacked = piecewise.stack([(k, v, piecewise.slopes(k, v)) for k, v in tables])
    assert stacked[0].shape == (73, 31)
    xp = array_namespace(make(x))
    got = piecewise.interpolate(xp, make(x), *(make(part) for part in stacked))
    expected = np.column_stack([np.interp(x[:, i], k, v) for i, (k, v) in enumerate(tables)])
    np.testing.assert_allclose(np.asarray(got), expected, atol=1e-12)
    got = piecewise.count_below(xp, make(x), make(stacked[0]))
    expected = np.column_stack(
        [np.searchsorted(k, x[:, i], "right") for i, (k, _) in enumerate(tables)]
    )
    np.testing.assert_array_equal(np.asarray(got), expected)


def test_steps_have_a_finite_slope():
    knots, values = np.array([0.0, 0.5, 0.5, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(piecewise.slopes(knots, values), [0.0, 1e9, 0.0, 0.0])
