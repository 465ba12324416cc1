"""Density-aware calibration keeps the contract too, with distances made up from the rows."""

import numpy as np
import pytest

from wildcal import DensityAware
from wildcal.calibrators import make_calibrator
from wildcal.testing import CALIBRATOR_CHECKS


def made_up(logits):
    """Return two numbers of each row that no order of classes and no constant changes."""
    z = np.asarray(logits, np.float64)
    if z.ndim != 2 or z.shape[1] < 2 or not np.isfinite(z.max(axis=1)).all():
        return np.zeros((len(z), 2))  # the logits will be refused first
    below = np.sort(np.minimum(z.max(axis=1, keepdims=True) - z, 50.0), axis=1)
    margin, spread = below[:, 1], below.mean(axis=1)
    return 1 / (1 + np.column_stack([margin, spread]))


@pytest.fixture
def density_aware(monkeypatch):
    """Let the method find distances of its own, so that checks made for logits alone apply."""
    fit, both = DensityAware.fit, DensityAware._both

    def fit_with(self, logits, y, **options):
        return fit(self, logits, y, densities=made_up(logits), **options)

    def both_with(self, logits, densities):
        return both(self, logits, made_up(logits))

    monkeypatch.setattr(DensityAware, "fit", fit_with)
    monkeypatch.setattr(DensityAware, "_both", both_with)


@pytest.mark.usefixtures("density_aware")
@pytest.mark.parametrize("check", CALIBRATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["dac", "dac+ets", "dac+spline", "dac+energy", "dac+context"])
def test_contract(name, check):
    check(lambda: make_calibrator(name))
