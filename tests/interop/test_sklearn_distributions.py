"""Rows become distributions, and those that are one already are left alone."""

import numpy as np
import pytest

from wildcal.interop.sklearn.distributions import as_distributions


def test_by_hand():
    rows = np.array([[0.2, 0.8], [0.5, 1.5], [0.0, 0.0], [0.1, 0.1]])
    expected = [[0.2, 0.8], [0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]
    assert as_distributions(rows) == pytest.approx(np.array(expected))
    assert rows[1, 1] == 1.5


def test_rounding_is_no_reason_to_touch_a_row():
    rows = np.full((3, 7), 1 / 7, np.float32)
    assert as_distributions(rows) is rows
    assert as_distributions(2 * rows).dtype == np.float32
