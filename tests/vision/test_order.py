"""The order in which rows are drawn: random, the same for a seed, every class spread evenly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wildcal._old.vision.datasets.order import random_order, stratified_order


@given(st.lists(st.integers(0, 6), min_size=1, max_size=80), st.integers(0, 100))
def test_every_stretch_has_each_class_in_proportion(labels, seed):
    y = np.array(labels)
    order = stratified_order(y, seed)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(y)))
    np.testing.assert_array_equal(order, stratified_order(y, seed))
    for label in np.unique(y):
        mine = y[order] == label
        share = np.cumsum(mine)
        # Up to place t of (0, 1] there are t n_c rows of the class, but for one; and of all others.
        spread = np.arange(1, len(y) + 1) / len(y) * mine.sum()
        assert np.abs(share - spread).max() <= 1 + len(np.unique(y)) * mine.sum() / len(y)


def test_the_first_rows_are_one_of_each_class():
    y = np.repeat(np.arange(50), 5)
    order = stratified_order(y, seed=3)
    assert set(y[order[:50]]) == set(y[order[-50:]]) == set(range(50))
    assert (np.bincount(y[order[:125]]) >= 2).all()
    assert list(order) != list(stratified_order(y, seed=4))


def test_a_name_gives_another_order():
    assert list(random_order(9, 0)) == list(np.random.default_rng(0).permutation(9))
    assert list(random_order(9, 0, "fog")) != list(random_order(9, 0))
    assert list(random_order(9, 0, "fog")) != list(random_order(9, 0, "frost"))
    assert list(random_order(9, 0, "fog")) == list(random_order(9, 0, "fog"))
