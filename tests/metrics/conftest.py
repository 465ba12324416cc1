import numpy as np
import pytest
from scipy.special import softmax


@pytest.fixture
def make_samples():
    """Return a maker of labels and overconfident probabilities, with some OOD samples (y = -1)."""

    def make(n, n_classes, seed=0, ood=0.0):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(n, n_classes)) * 2
        proba = softmax(z, axis=1)
        y = (proba.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        y[rng.random(n) < ood] = -1
        return y, softmax(z * 1.5, axis=1)

    return make
