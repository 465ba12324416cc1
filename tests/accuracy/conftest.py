"""Rows to fit on: clean ones, and environments in which the network errs more."""

import numpy as np
import pytest


def make_rows(seed=0, n=400, n_classes=4, fall=(0.0,), constant=0.0):
    """Logits whose signal fades from environment to environment, with their labels.

    The network is too confident by a factor of 1.5, and falls for class 0 where the signal fades.
    """
    rng = np.random.default_rng(seed)
    logits, labels, groups = [], [], []
    for number, weak in enumerate(fall):
        y = rng.permutation(np.arange(n) % n_classes)
        z = rng.normal(size=(n, n_classes))
        z[np.arange(n), y] += 3 * (1 - weak)
        z[:, 0] += 1.5 * weak
        logits.append(1.5 * z + constant)
        labels.append(y)
        groups.append(np.full(n, number))
    return np.concatenate(logits), np.concatenate(labels), np.concatenate(groups)


@pytest.fixture(scope="session")
def rows():
    """The function that makes rows."""
    return make_rows
