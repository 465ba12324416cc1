import numpy as np
import pytest


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.fixture
def make_rows():
    """Return a maker of labels and over-confident probabilities, with some rows y = -1."""

    def make(n, n_classes, seed=0, ood=0.0):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(n, n_classes)) * 2
        proba = softmax(z)
        y = (proba.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        y[rng.random(n) < ood] = -1
        return y, softmax(z * 1.5)

    return make
