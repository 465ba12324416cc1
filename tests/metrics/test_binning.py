import numpy as np
import pytest

from wildcal._old.metrics.binning import bin_edges, bin_index


def rule(confidence, n_bins):
    found = np.searchsorted(np.linspace(0, 1, n_bins + 1), confidence, side="left")
    return np.clip(found - 1, 0, n_bins - 1)


@pytest.mark.parametrize("n_bins", [*range(1, 41), 100, 999, 4096])
def test_index_is_the_documented_rule_on_edges_and_their_neighbors(n_bins):
    edges = np.linspace(0, 1, n_bins + 1)
    # The same fractions, reached by other roundings.
    others = [np.arange(n_bins + 1) / n_bins, np.arange(n_bins + 1) * (1 / n_bins)]
    others += [edges.astype(np.float32).astype(np.float64), np.random.default_rng(0).random(500)]
    points = np.concatenate([edges, *others])
    points = np.concatenate([points, np.nextafter(points, 2), np.nextafter(points, -1)])
    points = np.clip(points, 0, 1)
    np.testing.assert_array_equal(bin_index(points, n_bins), rule(points, n_bins))


def test_ends():
    # 0 belongs to the first bin although the rule (lo, hi] leaves it out; 1 to the last.
    assert bin_index(np.array([0.0, 5e-324, 1.0, 1.0000001]), 15).tolist() == [0, 0, 14, 14]


def test_edges_are_shared_and_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        bin_edges(15)[0] = 1
