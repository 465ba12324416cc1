"""Distances to the nearest training vectors, against sums over all of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from wildcal.core.parallel import use_threads
from wildcal.vision.features import unit_rows
from wildcal.vision.neighbours import (
    NeighbourSearch,
    about_search,
    cells,
    check_k,
    stored_ranks,
    usual_k,
)

VECTORS = Path(__file__).parents[1] / "reference" / "vectors" / "dac.json"


def unit(rng, n, width):
    x = rng.normal(size=(n, width))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def by_hand(train, points, ranks):
    """Return all squared distances in float64, sorted, at the ranks."""
    apart = points[:, None].astype(np.float64) - train[None]
    distances = np.sort((apart**2).sum(axis=2), axis=1)
    return distances[:, [rank - 1 for rank in ranks]]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [3, 40])
def test_exact(n, threads):
    """Few and many images at once: faiss has a way for each."""
    rng = np.random.default_rng(0)
    widths = (16, 3, 70)
    train = [unit(rng, 500, width) for width in widths]
    points = [unit(rng, n, width) for width in widths]
    with use_threads(threads):
        found = NeighbourSearch(train, k=10)(points)
    assert found.dtype == np.float32
    assert found.shape == (n, 6)
    for layer, (t, p) in enumerate(zip(train, points, strict=True)):
        wanted = by_hand(t, p, (1, 10))
        np.testing.assert_allclose(found[:, [layer, 3 + layer]], wanted, atol=1e-6)


def test_duplicates():
    """Equal vectors are at distance 0, and never below."""
    rng = np.random.default_rng(1)
    train = np.repeat(unit(rng, 30, 8), 3, axis=0)
    near = train[::7] + np.float32(1e-4)
    for points in (train, near):
        found = NeighbourSearch([train], k=4)([points])
        assert (found >= 0).all()
        np.testing.assert_allclose(found, by_hand(train, points, (1, 4)), atol=1e-5)
    found = NeighbourSearch([train], k=3)([train])
    assert (found == 0).all()
    # |x|^2 + |y|^2 - 2xy in float32 would leave one digit of this.
    found = NeighbourSearch([train], k=4)([near])[:, 0]
    np.testing.assert_allclose(found, by_hand(train, near, (1,))[:, 0], rtol=1e-5)
    assert found.max() < 1e-6


def test_published_vectors():
    case = json.loads(VECTORS.read_text())["knn"]
    train, points = (unit_rows(np.array(case[key]), key) for key in ("train", "query"))
    found = NeighbourSearch([train], k=case["k"])([points])
    np.testing.assert_allclose(found[:, 0], case["squared_distance_rank1"], atol=1e-5)
    np.testing.assert_allclose(found[:, 1], case["squared_distance_rank10"], atol=1e-5)


def test_ivf_is_near_the_truth_and_repeatable():
    rng = np.random.default_rng(2)
    centres = unit(rng, 20, 12)
    train = centres[rng.integers(0, 20, 4000)] + 0.1 * unit(rng, 4000, 12)
    points = centres[rng.integers(0, 20, 50)] + 0.1 * unit(rng, 50, 12)
    exact = NeighbourSearch([train], k=10)([points])
    first = NeighbourSearch([train], k=10, search="ivf", seed=3)([points])
    again = NeighbourSearch([train], k=10, search="ivf", seed=3)([points])
    np.testing.assert_array_equal(first, again)
    assert (first >= exact - 1e-6).all()
    assert np.isclose(first, exact, atol=1e-6).mean() > 0.5
    assert np.median(first / exact) < 1.05


def test_ivf_finds_k_neighbours_where_cells_are_small():
    rng = np.random.default_rng(4)
    train = unit(rng, 400, 6)
    found = NeighbourSearch([train], k=400, search="ivf")([train[:30]])
    np.testing.assert_allclose(found, by_hand(train, train[:30], (1, 400)), atol=1e-5)


def test_cells():
    assert cells(45_000) == (849, 53)
    assert cells(100) == (2, 2)
    assert cells(1) == (1, 1)
    assert about_search("exact", 100).keys() == {"search", "faiss"}
    about = about_search("ivf", 45_000)
    assert (about["cells"], about["cells_probed"]) == (849, 53)


def test_usual_k():
    assert [usual_k(d) for d in ("cifar10", "cifar100", "imagenet", "folders")] == [50, 200, 10, 10]
    assert stored_ranks(1) == [1]
    assert stored_ranks(50) == [1, 50]


def test_only_the_nearest():
    rng = np.random.default_rng(5)
    train, points = unit(rng, 30, 4), unit(rng, 5, 4)
    found = NeighbourSearch([train], k=1)([points])
    assert found.shape == (5, 1)
    np.testing.assert_allclose(found, by_hand(train, points, (1,)), atol=1e-6)


def test_more_neighbours_than_images():
    text = "k must be at most the number of training images, 30, got 31. Give a smaller --k"
    with pytest.raises(ValueError, match=text):
        NeighbourSearch([np.eye(30, dtype=np.float32)], k=31)
    check_k(30, 30)


def test_unknown_search():
    with pytest.raises(ValueError, match="search must be one of 'exact', 'ivf'"):
        NeighbourSearch([np.eye(3, dtype=np.float32)], k=1, search="hnsw")
