"""How many pairs of rows in a window share a class, while rows come and go."""

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import Labels


def rolling_pairs(counts: Labels, entering: Labels, leaving: Labels) -> NDArray[np.int64]:
    """Return how Σ c_k (c_k - 1) has changed after each entering row.

    Parameters
    ----------
    counts
        c_k, the rows of each class in the window at the beginning.
    entering, leaving
        The classes of rows in order. The last len(leaving) entering rows each push one row out,
        just before they enter; the window was not full before.

    Examples
    --------
    A second row of class 0 makes two ordered pairs; then it is pushed out by one of class 1.

    >>> rolling_pairs(np.array([1, 1]), np.array([0, 1]), np.array([0]))
    array([2, 2])
    """
    free = len(entering) - len(leaving)
    moves = np.stack([leaving, entering[free:]], axis=1).ravel()
    classes = np.concatenate([entering[:free], moves])
    signs = np.concatenate([np.ones(free, np.int64), np.tile([-1, 1], len(leaving))])
    # In order of class, a running sum of the signs is the count of that class, up to a constant.
    order = np.argsort(classes, kind="stable")
    sorted_classes, sorted_signs = classes[order], signs[order]
    before = np.cumsum(sorted_signs) - sorted_signs
    first = np.flatnonzero(np.diff(sorted_classes, prepend=-1))
    spans = np.diff(first, append=len(order))
    before += counts[sorted_classes] - np.repeat(before[first], spans)
    # A row makes 2 c pairs with the c others of its class, and takes 2 (c - 1) away.
    change = np.empty_like(before)
    change[order] = 2 * np.where(sorted_signs > 0, before, 1 - before)
    return np.asarray(np.cumsum(change)[signs > 0], np.int64)
