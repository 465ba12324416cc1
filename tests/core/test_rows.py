"""What comes through the door: arrays, or sources that are read piece by piece."""

import numpy as np

from wildcal.core.rows import is_source


def test_a_source_says_whether_others_can_read_it():
    class Pieces:
        portable = False

    class Array(np.ndarray):
        portable = True

    assert is_source(Pieces())
    assert not is_source(np.zeros((2, 2)).view(Array))
    assert not is_source([[1.0, 2.0]])
