"""Distances to the k-th nearest training sample, against sums over all of them."""

import numpy as np
import pytest

from wildcal import DensityAwareCalibration
from wildcal.vision import knn_distances
from wildcal.vision.neighbors import NeighborSearch, unit_vectors


def by_hand(train, points, k):
    train, points = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (train, points))
    return np.sort(((points[:, None] - train[None]) ** 2).sum(axis=2), axis=1)[:, k - 1]


@pytest.mark.parametrize("n", [3, 40])
def test_exact(n):
    rng = np.random.default_rng(0)
    train = {name: rng.normal(size=(500, width)) for name, width in (("a", 16), ("b", 3))}
    points = {name: rng.normal(size=(n, t.shape[1])) for name, t in train.items()}
    found = knn_distances(train, points, 10)
    assert (found.shape, found.dtype) == ((n, 2), np.float32)
    for column, name in enumerate(train):
        np.testing.assert_allclose(found[:, column], by_hand(train[name], points[name], 10), 1e-5)


def test_published_vectors(vectors):
    case = vectors("dac")["knn"]
    for k in (1, 10):
        found = knn_distances(case["train"], case["query"], k)
        np.testing.assert_allclose(found[:, 0], case[f"squared_distance_rank{k}"], atol=1e-5)


def test_small_distances_keep_their_digits():
    """|x|^2 + |y|^2 - 2xy of float32 has none left at 1e-8."""
    angle = np.array([0.0, 1e-4])
    train = np.column_stack([np.cos(angle), np.sin(angle)])
    found = knn_distances(train, train[:1], k=2)
    np.testing.assert_allclose(found, [[1e-8]], rtol=1e-2)


def test_images_among_the_training_images_are_counted():
    rng = np.random.default_rng(0)
    train = [unit_vectors(rng.normal(size=(100, 8)))]
    _, known = NeighborSearch(train, 3)([np.concatenate([train[0][:4], -train[0][:6]])])
    assert known == 4


def test_collect_and_density_aware_calibration():
    """From a torch model and loaders to DAC without a folder of pictures."""
    torch = pytest.importorskip("torch")
    from wildcal.interop.torch import collect

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 4)
    )
    x, y = torch.randn(300, 3, 8, 8), torch.randint(0, 4, (300,))
    batches = torch.utils.data.TensorDataset(x, y)
    train, held_out = torch.utils.data.random_split(batches, [200, 100])
    loaders = [torch.utils.data.DataLoader(part, 50) for part in (train, held_out)]
    _, _, train_features = collect(model, loaders[0], features=["1"])
    logits, labels, features = collect(model, loaders[1], features=["1"])
    distances = knn_distances(train_features, features, k=10)
    assert distances.shape == (100, 1)
    calibrator = DensityAwareCalibration().fit(logits, labels, knn_distances=distances)
    proba = calibrator.predict_proba(logits, knn_distances=distances)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)


def test_more_neighbors_than_training_samples_are_refused():
    with pytest.raises(ValueError, match=r"k must be an integer in \[1, 5\], got 6"):
        knn_distances(np.eye(5), np.eye(5), 6)


def test_features_that_are_refused():
    with pytest.raises(ValueError, match="features must be finite, of shape"):
        knn_distances(np.eye(5), np.full((2, 5), np.nan), 1)
    with pytest.raises(ValueError, match="features must be of the layers a, got b"):
        knn_distances({"a": np.eye(5)}, {"b": np.eye(5)}, 1)
