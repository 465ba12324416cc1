"""Rows of rows that are read: the right ones, however often they are cut."""

import numpy as np

from wildcal.core.span import Span, span


class Read:
    """Rows that are no array."""

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype

    def __len__(self):
        return len(self._array)

    def __getitem__(self, rows):
        return self._array[rows]


def test_a_part_of_a_part():
    whole = np.arange(40.0).reshape(20, 2)
    part = span(Read(whole), 3, 15)
    assert isinstance(part, Span)
    inner = span(part, 2, 7)
    np.testing.assert_array_equal(inner[:], whole[5:10])
    np.testing.assert_array_equal(span(inner, 4, 5)[:], whole[9:10])
    assert inner.shape == (5, 2)
    assert span(None, 1, 2) is None
