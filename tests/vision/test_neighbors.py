"""Distances to the nearest training vectors, against sums over all of them."""

import json
import weakref
from pathlib import Path

import numpy as np
import pytest

from wildcal._old.core.parallel import use_threads
from wildcal._old.vision.features import unit_rows
from wildcal._old.vision.neighbors import (
    NeighborSearch,
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
        found = NeighborSearch(train, k=10)(points)
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
        found = NeighborSearch([train], k=4)([points])
        assert (found >= 0).all()
        np.testing.assert_allclose(found, by_hand(train, points, (1, 4)), atol=1e-5)
    found = NeighborSearch([train], k=3)([train])
    assert (found == 0).all()
    # |x|^2 + |y|^2 - 2xy in float32 would leave one digit of this.
    found = NeighborSearch([train], k=4)([near])[:, 0]
    np.testing.assert_allclose(found, by_hand(train, near, (1,))[:, 0], rtol=1e-5)
    assert found.max() < 1e-6


def test_published_vectors():
    case = json.loads(VECTORS.read_text())["knn"]
    train, points = (unit_rows(np.array(case[key]), key) for key in ("train", "query"))
    found = NeighborSearch([train], k=case["k"])([points])
    np.testing.assert_allclose(found[:, 0], case["squared_distance_rank1"], atol=1e-5)
    np.testing.assert_allclose(found[:, 1], case["squared_distance_rank10"], atol=1e-5)


def test_ivf_is_near_the_truth_and_repeatable():
    rng = np.random.default_rng(2)
    centers = unit(rng, 20, 12)
    train = centers[rng.integers(0, 20, 6000)] + 0.1 * unit(rng, 6000, 12)
    points = centers[rng.integers(0, 20, 50)] + 0.1 * unit(rng, 50, 12)
    assert cells(6000, 10) == (153, 66)
    exact = NeighborSearch([train], k=10)([points])
    first = NeighborSearch([train], k=10, search="ivf", seed=3)([points])
    again = NeighborSearch([train], k=10, search="ivf", seed=3)([points])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, exact, atol=1e-6)


@pytest.mark.parametrize(("n", "k", "most"), [(12_000, 50, 0.001), (30_000, 50, 0.01)])
def test_ivf_where_nothing_is_near_anything(n, k, most):
    """Random vectors are the worst case: the k-th is missed, by little. Never is one too near."""
    rng = np.random.default_rng(6)
    train, points = unit(rng, n, 64), unit(rng, 100, 64)
    exact = NeighborSearch([train], k=k)([points])
    found = NeighborSearch([train], k=k, search="ivf")([points])
    assert (found >= exact * (1 - 1e-5)).all()
    assert (found / exact - 1).mean(axis=0).max() < most
    looks_at_all = cells(n, k) == (1, 1)
    assert np.allclose(found, exact, rtol=1e-5) == looks_at_all
    assert looks_at_all == (n < 512 * k)


def test_ivf_finds_k_neighbors_where_cells_are_empty():
    """All vectors are equal, so they are in one cell, which is not among those looked into."""
    rng = np.random.default_rng(4)
    train, points = np.repeat(unit(rng, 1, 6), 3000, axis=0), unit(rng, 30, 6)
    assert cells(3000, 5) == (76, 33)
    found = NeighborSearch([train], k=5, search="ivf")([points])
    np.testing.assert_allclose(found, by_hand(train[:5], points, (1, 5)), atol=1e-5)


def test_layers_are_taken_one_after_the_other():
    """A layer that was handed over is let go before the one after the next is asked for."""
    rng = np.random.default_rng(7)
    layers = [unit(rng, 60, width) for width in (4, 5, 6)]
    points = [unit(rng, 3, width) for width in (4, 5, 6)]
    wanted = NeighborSearch(layers, k=3)(points)
    handed = []

    def hand_over():
        while layers:
            assert not any(one() is not None for one in handed[:-1])
            handed.append(weakref.ref(layers[0]))
            yield layers.pop(0)

    np.testing.assert_array_equal(NeighborSearch(hand_over(), k=3)(points), wanted)
    assert len(handed) == 3


def test_cells():
    """A sixteenth of them, or enough for 256 k rows; all where that is more than half."""
    assert cells(45_000, 1) == (849, 53)
    assert cells(45_000, 50) == (849, 242)
    assert cells(45_000, 200) == (1, 1)
    assert cells(100, 1) == (1, 1)
    assert cells(1, 1) == (1, 1)
    assert about_search("exact", 100, 1).keys() == {"search", "faiss"}
    about = about_search("ivf", 45_000, 50)
    assert (about["cells"], about["cells_probed"]) == (849, 242)


def test_usual_k():
    assert [usual_k(d) for d in ("cifar10", "cifar100", "imagenet", "folders")] == [50, 200, 10, 10]
    assert stored_ranks(1) == [1]
    assert stored_ranks(50) == [1, 50]


def test_only_the_nearest():
    rng = np.random.default_rng(5)
    train, points = unit(rng, 30, 4), unit(rng, 5, 4)
    found = NeighborSearch([train], k=1)([points])
    assert found.shape == (5, 1)
    np.testing.assert_allclose(found, by_hand(train, points, (1,)), atol=1e-6)


def test_more_neighbors_than_images():
    text = "k must be at most the number of training images, 30, got 31. Give a smaller k"
    with pytest.raises(ValueError, match=text):
        NeighborSearch([np.eye(30, dtype=np.float32)], k=31)
    check_k(30, 30)


def test_unknown_search():
    with pytest.raises(ValueError, match="search must be one of 'exact', 'ivf'"):
        NeighborSearch([np.eye(3, dtype=np.float32)], k=1, search="hnsw")
