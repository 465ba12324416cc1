"""Isotonic regression by counting between the ones: equal to scikit-learn's, pair by pair."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wildcal.calibrators.gaps import GapCounter, fit_in_ranges
from wildcal.calibrators.ones import SmallestOnes
from wildcal.calibrators.pava import Pooling, check_thresholds, fit_isotonic
from wildcal.calibrators.piecewise import Curves, interpolated
from wildcal.core import room


def count(x, target, weight, pieces, most=1 << 20):
    """Fit by GapCounter, the pairs handed over in several pieces, a few ones at a time."""
    used = np.ones(len(x), bool) if weight is None else weight > 0
    weight = None if weight is None else weight[used]
    x, target = x[used], target[used]

    def add_ones(ones):
        ones[0].add(x[target], None if weight is None else weight[target])

    def add_pairs(gaps):
        for part in np.array_split(np.arange(len(x)), pieces):
            order = part[np.argsort(x[part])]
            gaps[0].add(x[order], None if weight is None else weight[order])

    return fit_in_ranges(1, most, add_ones, add_pairs)[0]


# A few distinct values make ties, with and between targets, the rule.
ROWS = st.lists(
    st.tuples(st.integers(0, 12), st.booleans(), st.sampled_from([0.0, 0.5, 1.0, 2.0])),
    min_size=1,
    max_size=60,
)


@given(rows=ROWS, weighted=st.booleans(), pieces=st.integers(1, 4), most=st.integers(1, 5))
def test_counting_equals_pooling_all_pairs(rows, weighted, pieces, most):
    x = np.array([value for value, _, _ in rows]) / 12
    target = np.array([hit for _, hit, _ in rows])
    weight = np.array([w for _, _, w in rows])
    if not weighted:
        weight = None
    elif not weight.any():
        weight[:] = 1.0
    used = np.ones(len(x), bool) if weight is None else weight > 0
    whole = fit_isotonic(x[used], target[used], None if weight is None else weight[used])
    counted = count(x, target, weight, pieces)
    for a, b in zip(counted, count(x, target, weight, pieces, most=most), strict=True):
        assert a.tobytes() == b.tobytes()
    check_thresholds(*whole)
    check_thresholds(*counted)
    grid = np.linspace(0, 1, 101)
    np.testing.assert_allclose(np.interp(grid, *counted), np.interp(grid, *whole), atol=1e-12)


def test_a_late_zero_pools_cell_after_cell():
    """Each round pools one cell more, so it ends in SciPy; here the answer is known."""
    n = 1000
    x, ones = np.arange(1.0, n + 1) / n, np.arange(1.0, n + 1)
    ones[-1] = 0
    total = np.full(n, float(n))
    total[-1] = 1e9
    mean = ones.sum() / total.sum()
    curve = Pooling()
    curve.add(x, x, ones, total)
    np.testing.assert_allclose(curve.thresholds(), [[x[0], x[-1]], [mean, mean]])


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(needs, weighted):
    needs("sklearn")
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(0)
    x = np.round(rng.random(3000), 3)
    target = rng.random(3000) < x**2
    weight = rng.integers(0, 4, 3000) / 2 if weighted else None
    theirs = IsotonicRegression(out_of_bounds="clip").fit(x, target, sample_weight=weight)
    grid = np.linspace(-0.1, 1.1, 1201)
    used = np.ones(3000, bool) if weight is None else weight > 0
    ours = fit_isotonic(x[used], target[used], None if weight is None else weight[used])
    np.testing.assert_allclose(np.interp(grid, *ours), theirs.predict(grid), atol=1e-12)
    np.testing.assert_allclose(ours[0], theirs.X_thresholds_, atol=0)
    counted = count(x, target, weight, 3)
    np.testing.assert_allclose(np.interp(grid, *counted), theirs.predict(grid), atol=1e-12)


def test_by_hand():
    # The one at .3 and the zeros at .3 and .4 pool to 1/3; zeros before the first one are 0.
    x = np.array([0.1, 0.2, 0.3, 0.3, 0.4, 0.6])
    target = np.array([False, False, True, False, False, True])
    thresholds, values = count(x, target, None, 1)
    np.testing.assert_array_equal(thresholds, [0.2, 0.3, 0.4, 0.6])
    np.testing.assert_allclose(values, [0, 1 / 3, 1 / 3, 1])


def test_no_ones_and_no_zeros():
    x = np.array([0.2, 0.4])
    assert [v.tolist() for v in count(x, np.zeros(2, bool), None, 1)] == [[0.4], [0.0]]
    assert [v.tolist() for v in count(x, np.ones(2, bool), None, 1)] == [[0.2, 0.4], [1.0, 1.0]]
    assert [v.tolist() for v in count(x[:0], x[:0] > 0, None, 1)] == [[0.0], [0.0]]


def test_the_table_gives_the_bits_of_interp():
    rng = np.random.default_rng(1)
    x = np.unique(rng.random(300) ** 9)
    y = np.sort(rng.random(len(x)))
    p = np.concatenate([rng.random(200_000) ** 9, x, [0.0, 1.0, 1e-40]])
    f = Curves([x], [y])
    assert f(p).tobytes() == np.interp(p, x, y).tobytes()
    assert f(p[:3]).tobytes() == np.interp(p[:3], x, y).tobytes()
    for single in (np.array([0.5]), np.array([1.0]), np.array([0.0])):
        constant = Curves([single], [np.array([0.7])])
        np.testing.assert_array_equal(constant(p), 0.7)


@pytest.mark.parametrize("k", [2, 10, 300])
def test_curves_of_columns_give_the_bits_of_interp(k):
    """Thresholds crowd near 1 and far below 2**-64, where a table has one cell for all of them."""
    rng = np.random.default_rng(k)
    x = [np.unique(rng.random(n) ** 40) for n in range(1, 1 + k)]
    x = [np.unique(np.concatenate([row, 1 - 1e-3 * row[row < 0.5]])) for row in x]
    y = [np.sort(rng.random(len(row))) for row in x]
    p = rng.random((40, k)) ** 40
    p[::2] = 1 - 1e-3 * p[::2]
    p[0], p[1], p[2] = 0, 1, [row[len(row) // 2] for row in x]
    expected = np.column_stack([np.interp(p[:, i], x[i], y[i]) for i in range(k)])
    assert Curves(x, y)(p).tobytes() == expected.tobytes()


@pytest.mark.parametrize("points", [1, 50, 5_000])
@pytest.mark.parametrize("rows", [1, 255, 3_000])
def test_values_looked_up_in_order_are_those_of_interp(points, rows):
    rng = np.random.default_rng(points)
    xp, fp = np.unique(rng.random(points)), rng.normal(size=points)
    x = np.append(rng.random(rows - 1), xp[0])
    assert interpolated(x, xp, fp).tobytes() == np.interp(x, xp, fp).tobytes()


@pytest.mark.parametrize("most", [25_000, 100_000])
def test_a_fit_takes_no_more_memory_than_is_asked_for(most):
    """Whether there is room is asked before rows are read; more must not be taken in the end."""
    n, step = 100_000, 10_000
    ones = np.random.default_rng(0).random(n)  # no two are equal: the most there is
    pairs = np.sort(ones)
    fit_isotonic(ones[:2], ones[:2] > 0, None)  # imports the solver
    tracemalloc.start()
    try:
        smallest = SmallestOnes(most=most)
        for start in range(0, n, step):
            smallest.add(ones[start : start + step])
        gaps = GapCounter(smallest)
        del smallest
        for start in range(0, n, step):
            gaps.add(pairs[start : start + step])
        gaps.pool_into(curve := Pooling())
        curve.thresholds()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    beside = 16 * step  # a piece of rows: the softmax of the true class, and the label
    few = 40 * (1 << 16)  # which are not sorted on their own, in the first piece
    assert peak <= room._ROW_BYTES * most + beside + few
