"""States of windows: sums that add, and one that cannot be is refused."""

import numpy as np
import pytest

from wildcal._old.accuracy import WindowState


def make(counts, sums):
    return WindowState("ac", sum(counts), np.array(counts), np.array(sums))


def test_states_add():
    state = make([2, 1], [2.0, 0.5, 2.0, 1.5])
    both = state + state
    assert (both.method, both.n) == ("ac", 6)
    assert (both.counts.tolist(), both.sums.tolist()) == ([4, 2], [4, 1, 4, 3])


def test_too_few_sums(fitted):
    with pytest.raises(ValueError, match="the state has 1 sums, not 4"):
        fitted["ac"].estimate_state(make([2, 1, 0, 0], [1.0]))
