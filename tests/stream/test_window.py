"""The rolling window: exact sums, exact class numbers, and nothing half done."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wildcal._old.calibrators.context import RowStatistics
from wildcal._old.stream.window import UNIT, Window, whole


def rolling_pairs(counts, entering, leaving):
    """Return the pairs of the same class after each row that enters."""
    counts, found = counts.copy(), []
    for i, pred in enumerate(entering):
        if i >= len(entering) - len(leaving):
            counts[leaving[i - len(entering) + len(leaving)]] -= 1
        counts[pred] += 1
        found.append(int(counts @ (counts - 1)))
    return np.array(found)


class Pairs:
    """What a window asks of a calibrator: two features, and pairs of the same class."""

    features = ("energy", "confidence")

    def __init__(self, n_classes, by_class=(0,)):
        self.n_classes_, self.by_class = n_classes, by_class

    def rolling_class_numbers(self, counts, inside, entering, leaving):
        assert inside.shape == (len(self.by_class), self.n_classes_)
        for rows in (entering, leaving):
            assert rows.inside.shape == (len(self.by_class), len(rows.pred))
        return rolling_pairs(counts, entering.pred, leaving.pred)[None]


def statistics(rng, n, k):
    return RowStatistics(rng.normal(size=(2, n)), rng.integers(0, k, n), np.ones(n))


def pairs_of(pred, k):
    counts = np.bincount(pred, minlength=k)
    return int(counts @ (counts - 1))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 12))
def test_pairs_are_those_of_each_window(classes, size):
    pred = np.array(classes)
    window = Window(size, Pairs(4))
    step = window.enter(RowStatistics(np.zeros((2, len(pred))), pred, np.ones(len(pred))))
    expected = [pairs_of(pred[max(0, i + 1 - size) : i + 1], 4) for i in range(len(pred))]
    assert step.classes.tolist() == [expected]


def test_pairs_by_hand():
    # 0 0 in the window; a 1 pushes out a 0, then another 1 the other.
    got = rolling_pairs(np.array([2, 0]), np.array([1, 1]), np.array([0, 0]))
    assert got.tolist() == [0, 2]


@pytest.mark.parametrize("size", [1, 7, 300, 5000])
def test_sums_over_each_window(size):
    rng = np.random.default_rng(size)
    rows, p = statistics(rng, 9000, 5), rng.uniform(size=9000)
    window, done = Window(size, Pairs(5)), 0
    while done < 9000:
        n = min(int(rng.integers(1, window.piece + 1)), 9000 - done)
        part = slice(done, done + n)
        step = window.enter(rows[part])
        sums = window.commit(step, p[part])
        done += n
        for i in (0, n - 1):
            mine = slice(max(0, part.start + i + 1 - size), part.start + i + 1)
            assert step.n[i] == mine.stop - mine.start
            assert step.sums[:, i].tolist() == whole(rows.features[:, mine]).sum(axis=1).tolist()
            assert step.classes[0, i] == pairs_of(rows.pred[mine], 5)
            assert sums[0, i] == whole(p[mine]).sum()
            np.testing.assert_allclose(sums[1, i] * UNIT, (p[mine] * (1 - p[mine])).sum())
    last = slice(9000 - size, 9000)
    np.testing.assert_array_equal(window.rows()[3], rows.pred[last])
    expected = np.bincount(rows.pred[last], minlength=5)
    np.testing.assert_array_equal(window.totals.counts, expected)


def test_the_judged_window_is_the_last_that_was_all_new():
    rng = np.random.default_rng(0)
    rows = statistics(rng, 100, 3)
    step = Window(8, Pairs(3)).enter(rows)
    energy = whole(rows.features[0])
    for i in range(100):
        end = (i + 1) // 8 * 8
        assert step.filled[0, i] == energy[max(0, end - 8) : end].sum()


def test_rows_that_were_not_committed_leave_no_trace():
    """An interrupt may come at any time between `enter` and the end of `commit`."""
    rng = np.random.default_rng(0)
    window, rows = Window(10, Pairs(3)), statistics(rng, 25, 3)
    window.commit(window.enter(rows), rng.uniform(size=25))
    before, kept = window.totals, window.rows()
    window.enter(statistics(rng, 4096, 3))
    assert window.totals is before
    np.testing.assert_array_equal(window.rows(), kept)


@pytest.mark.parametrize("by_class", [(), (0,), (1,), (0, 1)])
def test_restored_totals_are_the_rolled_ones(by_class):
    """Sums by class are those of the features that are kept so, in their order."""
    rng = np.random.default_rng(1)
    window = Window(50, Pairs(4, by_class))
    for n in (30, 90, 1, 17):
        window.commit(window.enter(statistics(rng, n, 4)), rng.uniform(size=n))
    other, now = Window(50, Pairs(4, by_class)), window.totals
    other.restore(now.seen, window.rows(), now.filled)
    np.testing.assert_array_equal(other.totals.sums, now.sums)
    np.testing.assert_array_equal(other.totals.counts, now.counts)
    np.testing.assert_array_equal(other.totals.inside, now.inside)
    kept = window.rows()
    expected = [[kept[i, kept[-1] == k].sum() for k in range(4)] for i in by_class]
    assert now.inside.shape == (len(by_class), 4)
    assert now.inside.tolist() == expected
    np.testing.assert_array_equal(other.rows(), window.rows())
    # One after the other in a context.
    assert now.context().by_class == tuple(x * UNIT for of in expected for x in of)
    assert now.context().counts == tuple(now.counts)


def test_rows_that_come_and_go_bring_what_is_kept_by_class():
    """Every feature that is kept of entering and of leaving rows, and the sums before them."""
    asked = []

    class Asked(Pairs):
        def rolling_class_numbers(self, counts, inside, entering, leaving):
            asked.append((inside, entering, leaving))
            return super().rolling_class_numbers(counts, inside, entering, leaving)

    rng = np.random.default_rng(2)
    window, rows = Window(6, Asked(3, (1, 0))), statistics(rng, 10, 3)
    for part in (slice(0, 4), slice(4, 10)):
        window.commit(window.enter(rows[part]), np.full(part.stop - part.start, 0.5))
    inside, entering, leaving = asked[1]
    kept = whole(rows.features)[[1, 0]]
    expected = [[of[:4][rows.pred[:4] == k].sum() for k in range(3)] for of in kept]
    assert inside.tolist() == expected
    for found, part in ((entering, slice(4, 10)), (leaving, slice(0, 4))):
        assert found.inside.tolist() == kept[:, part].tolist()
        assert found.pred.tolist() == rows.pred[part].tolist()
