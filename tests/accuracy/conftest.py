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


@pytest.fixture(scope="session")
def tuning():
    """Clean rows and five shifted environments, with what a second network says of the rows."""
    logits, y, environment = make_rows(fall=(0.0, 0.2, 0.3, 0.5, 0.7, 0.8))
    noise = np.random.default_rng(7).normal(size=logits.shape)
    return logits, y, environment, logits + 1.5 * noise


@pytest.fixture(scope="session")
def window():
    """Unlabeled rows half way down, and what the second network says of them."""
    logits, y, _ = make_rows(seed=5, n=200, fall=(0.4,))
    noise = np.random.default_rng(8).normal(size=logits.shape)
    return logits, logits + 1.5 * noise, y


@pytest.fixture(scope="session")
def fitted(tuning):
    """Every estimator, fitted once."""
    from wildcal._old.accuracy import ESTIMATORS

    logits, y, environment, second = tuning
    return {
        name: kind().fit(logits, y, environment, second=second if kind.needs_second else None)
        for name, kind in ESTIMATORS.items()
    }
