import numpy as np
import pytest

from wildcal._old.metrics import sce
from wildcal._old.metrics.classwise import ClasswiseAccumulator


def plain_sce(y, proba, n_bins):
    """The definition, entry by entry."""
    y, proba = y[y >= 0], proba[y >= 0].astype(np.float64)
    edges = np.linspace(0, 1, n_bins + 1)
    total = 0.0
    for k in range(proba.shape[1]):
        index = np.clip(np.searchsorted(edges, proba[:, k], side="left") - 1, 0, n_bins - 1)
        total += np.abs(np.bincount(index, proba[:, k] - (y == k), n_bins)).sum()
    return total / (len(y) * proba.shape[1])


def test_by_hand():
    proba = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1]])
    # two bins (0, .5] and (.5, 1]. class 0: |1.3 - 1|; class 1: |.5 - 0|; class 2: |.2 - 1|.
    assert sce([0, 2], proba, n_bins=2) == pytest.approx((0.3 + 0.5 + 0.8) / 2 / 3)


def test_a_missing_class_still_counts_in_the_mean():
    # Four columns, one label: |.7 + .6 - 2|, then .3, .3 and .1 for nothing.
    proba = np.array([[0.7, 0.1, 0.2, 0.0], [0.6, 0.2, 0.1, 0.1]])
    assert sce([0, 0], proba, n_bins=1) == pytest.approx((0.7 + 0.3 + 0.3 + 0.1) / 2 / 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_classes", "n_bins"), [(2, 15), (5, 1), (30, 10), (700, 15), (3, 700)])
def test_matches_the_definition(make_rows, n_classes, n_bins, dtype):
    y, proba = make_rows(400, n_classes, ood=0.1)
    proba = proba.astype(dtype)
    assert sce(y, proba, n_bins=n_bins) == pytest.approx(plain_sce(y, proba, n_bins), abs=1e-14)


def test_entries_on_the_edges():
    # k / 15 in float32 lies on one side or the other of the float64 edge.
    column = np.arange(16, dtype=np.float32) / np.float32(15)
    proba = np.column_stack([column, 1 - column])
    y = np.arange(16) % 2
    assert sce(y, proba) == pytest.approx(plain_sce(y, proba, 15), abs=1e-14)


def test_out_of_distribution_rows_are_left_out(make_rows):
    y, proba = make_rows(300, 6, ood=0.3)
    assert sce(y, proba) == pytest.approx(sce(y[y >= 0], proba[y >= 0]), abs=1e-15)


def test_rows_are_not_normalized():
    assert sce([0], np.array([[0.5, 0.25]]), n_bins=1) == pytest.approx((0.5 + 0.25) / 2)


def test_entries_waiting_for_their_bins_run_out_with_the_rows():
    # Three blocks of 2^16 entries, all above bin 0: the last block is also the one that fills up.
    rows = 3 << 15
    assert sce(np.zeros(rows, dtype=int), np.full((rows, 2), 0.5)) == pytest.approx(0.5)


def test_a_probability_that_rounding_put_above_one_counts_as_one():
    proba = np.array([[np.nextafter(np.float32(1), np.float32(2)), 0.0]], np.float32)
    sums = ClasswiseAccumulator(2, 4).update([0], proba).proba_sum
    np.testing.assert_array_equal(sums, [[0, 0, 0, 1], [0, 0, 0, 0]])
