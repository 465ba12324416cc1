"""Which images are learned from, and in which order images are drawn."""

import numpy as np
from numpy.typing import NDArray

from wildcal.vision.images import Indices


def n_learned(n_train: int) -> int:
    """Return how many images of a CIFAR training set are learned from: 45,000 of 50,000.

    The others are kept for calibration, which must not use images that the network was trained on.
    """
    return n_train * 9 // 10


def draw(indices: Indices, n: int | None, seed: int, name: str = "") -> Indices:
    """Return the first n of the indices in random order; another name gives another order.

    A larger n only adds indices.

    Examples
    --------
    >>> draw(np.arange(5), 3, seed=0)
    array([2, 4, 3])
    """
    rng = np.random.default_rng([seed, *name.encode()] if name else seed)
    return indices[rng.permutation(len(indices))][:n]


def stratified_order(labels: NDArray[np.int64], seed: int) -> Indices:
    r"""Return indices in random order with every class spread evenly over it.

    The k-th of the n_c samples of class c, in random order, is at (k + u_c) / n_c with u_c random
    in [0, 1). So any stretch of the order has each class in proportion, up to one sample.

    Examples
    --------
    >>> labels = np.repeat([0, 1, 2], 4)
    >>> labels[stratified_order(labels, seed=0)].reshape(4, 3)
    array([[0, 2, 1],
           [0, 2, 1],
           [0, 2, 1],
           [0, 2, 1]])
    """
    rng = np.random.default_rng(seed)
    position = np.empty(len(labels))
    for label in np.unique(labels):
        chosen = rng.permutation(np.flatnonzero(labels == label))
        position[chosen] = (np.arange(len(chosen)) + rng.random()) / len(chosen)
    return np.argsort(position, kind="stable").astype(np.int64)
