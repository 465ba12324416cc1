"""What a stream's confidences were like lately."""

import numpy as np
import pytest

from wildcal._old.serve.recent import BINS, Recent


def test_older_rows_count_less():
    rng = np.random.default_rng(0)
    sure = rng.random(900).astype(np.float32)
    recent = Recent()
    for part in np.split(sure, [1, 2, 3, 500, 501]):
        recent.add(part)
    weight = 0.999 ** np.arange(899, -1, -1)
    assert recent.mean == pytest.approx(weight @ sure / weight.sum(), rel=1e-9)
    shares = np.histogram(sure, BINS, (0, 1), weights=weight)[0] / weight.sum()
    np.testing.assert_allclose(recent.histogram, shares, rtol=1e-9)


def test_before_the_first_row_and_after_a_restart():
    assert np.isnan(Recent().mean)
    assert not Recent().histogram.any()
    again = Recent(0.8)
    again.add(np.array([0.3]))
    assert 0.79 < again.mean < 0.8
    assert again.histogram.sum() == pytest.approx(1)
