"""The order in which rows of a data set are drawn: whoever takes more of them keeps the first."""

import numpy as np
from numpy.typing import NDArray


def random_order(n: int, seed: int, name: str = "") -> NDArray[np.int64]:
    """Return 0..n-1 in random order; another name gives another order.

    Examples
    --------
    >>> from wildcal._old.vision.datasets.order import random_order
    >>> random_order(5, seed=0)
    array([2, 4, 3, 0, 1])
    """
    rng = np.random.default_rng([seed, *name.encode()] if name else seed)
    return rng.permutation(n).astype(np.int64)


def stratified_order(labels: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    r"""Return the rows in random order, every class spread evenly over it.

    The k-th of the n_c rows of class c, in random order, stands at (k + u_c) / n_c, where u_c is
    random in [0, 1). So any stretch of the order has each class in proportion, up to one row, and
    of K classes of equal size the first K rows are one of each.

    Parameters
    ----------
    labels
        Shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from wildcal._old.vision.datasets.order import stratified_order
    >>> labels = np.repeat([0, 1, 2], 4)
    >>> labels[stratified_order(labels, seed=0)].reshape(4, 3)
    array([[0, 2, 1],
           [0, 2, 1],
           [0, 2, 1],
           [0, 2, 1]])
    """
    rng = np.random.default_rng(seed)
    place = np.empty(len(labels))
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        place[rows] = (np.arange(len(rows)) + rng.random()) / len(rows)
    return np.argsort(place, kind="stable").astype(np.int64)
