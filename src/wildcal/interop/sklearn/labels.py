"""Labels of any type, and the column of the scores that each one stands for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from wildcal.core.arrays import Labels


def check_target(y: Any, who: str) -> NDArray[Any]:
    """Return the labels as an array of shape (n_samples,)."""
    if y is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None.")
    check_classification_targets(y)
    labels = np.asarray(column_or_1d(y, warn=True))
    if len(labels) == 0:
        raise ValueError("y must have at least one row, got none.")
    return labels


def classes_of(y: NDArray[Any]) -> NDArray[Any]:
    """Return the different labels, sorted; there must be two of them."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got one class: {classes[0]!s}.")
    return classes


def encode(y: NDArray[Any], classes: NDArray[Any]) -> Labels:
    """Return the number of each label in `classes`, which need not be sorted."""
    order = np.argsort(classes)
    place = np.minimum(np.searchsorted(classes, y, sorter=order), len(classes) - 1)
    codes = order[place]
    unknown = np.flatnonzero(classes[codes] != y)
    if len(unknown):
        raise ValueError(
            f"y must hold classes that the estimator knows, but row {unknown[0]} is"
            f" {y[unknown[0]]!s}. Rows of other classes go into X_ood."
        )
    return np.asarray(codes, np.int64)
