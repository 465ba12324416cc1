"""Squared distances to the k-th nearest training sample, layer by layer, by faiss."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.exceptions import InputError, needs_extra
from wildcal.core.validation import check_number

Features: TypeAlias = NDArray[np.float32]
# Added to the length of a feature vector: a vector of zeros keeps its value.
_EPS: Final = 1e-10
# Squared distance of two unit vectors in float32 that are the same image.
_SAME_IMAGE: Final = 1e-6


def knn_distances(
    train_features: ArrayLike | Mapping[str, ArrayLike],
    features: ArrayLike | Mapping[str, ArrayLike],
    k: int,
) -> NDArray[np.float32]:
    """Return squared distances to the k-th nearest training sample, for density-aware calibration.

    Feature vectors are divided by their length first, so the squared distance of two of them is
    2 - 2 cos.

    Parameters
    ----------
    train_features
        Features of the samples that the network was trained on: an array of shape (n_train,
        n_features), or a dict of such arrays, one per layer, as `interop.torch.collect` returns it.
    features
        Features of the samples, of the same layers.
    k
        The neighbor: 50 is usual for CIFAR-10, 200 for CIFAR-100, 10 for ImageNet.

    Returns
    -------
    array of float32, shape (n_samples, n_layers)

    Examples
    --------
    >>> import numpy as np
    >>> train = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> knn_distances(train, [[2.0, 0.0]], k=2).round(3)  # 2 - 2 * 0.6
    array([[0.8]], dtype=float32)
    """
    if not isinstance(train_features, Mapping):
        train_features = {"features": train_features}
    if not isinstance(features, Mapping):
        features = dict.fromkeys(train_features, features)
    if set(train_features) != set(features):
        raise InputError(
            f"features must be of the layers {', '.join(train_features)}, got"
            f" {', '.join(features)}.",
            "features",
        )
    search = NeighborSearch([unit_vectors(f) for f in train_features.values()], k)
    distances, _ = search([unit_vectors(features[name]) for name in train_features])
    return np.asarray(distances, np.float32)


def unit_vectors(features: ArrayLike) -> Features:
    """Return feature vectors divided by their lengths."""
    values: NDArray[Any] = np.asarray(features, np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise InputError(
            f"features must be finite, of shape (n_samples, n_features), got shape {values.shape}.",
            "features",
        )
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    unit: Features = (values / (lengths + _EPS)).astype(np.float32)
    return unit


class NeighborSearch:
    """The training features of all layers, indexed.

    Parameters
    ----------
    features
        For each layer, unit vectors of shape (n_train, n_features).
    k
        The neighbor that is wanted.
    """

    def __init__(self, features: Sequence[Features], k: int) -> None:
        check_number("k", k, 1, len(features[0]), whole=True)
        self.k = k
        self._indexes = [_build(layer) for layer in features]

    def __call__(self, features: Sequence[Features]) -> tuple[NDArray[np.float32], int]:
        """Return distances, shape (n_samples, n_layers), and how many samples are in the index."""
        columns, known = [], np.ones(len(features[0]), np.bool_)
        for index, points in zip(self._indexes, features, strict=True):
            squared, nearest = index.search(points, self.k)
            # faiss computes |x|^2 + |y|^2 - 2xy in float32, which leaves few digits of a small
            # distance.
            neighbors = index.reconstruct_batch(np.ascontiguousarray(nearest[:, -1]))
            difference = points.astype(np.float64) - neighbors
            columns.append(np.einsum("ij,ij->i", difference, difference))
            known &= squared[:, 0] < _SAME_IMAGE
        return np.column_stack(columns).astype(np.float32), int(known.sum())


def _build(features: Features) -> Any:
    """Return an index for exact search."""
    with needs_extra("knn_distances", "vision"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the bindings of faiss
        import faiss
    index = faiss.IndexFlatL2(features.shape[1])
    index.add(features)
    return index
