"""Logits of a source domain and of shifted domains."""

import numpy as np
import pytest


def draw_domains(seed=0, n=400, n_classes=4, fall=(0.0,), constant=0.0):
    """Return logits, labels and domains; the signal falls by the given part in each domain.

    Logits are too large by a factor of 1.5, and class 0 is predicted too often under shift.
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
def draw():
    """The function that draws samples of domains."""
    return draw_domains
