"""A folder of files for commands."""

import numpy as np
import pytest

from wildcal.testing import make_suite


@pytest.fixture(scope="session")
def drawn():
    """Synthetic logits; `make_suite` explains them."""
    return make_suite(800)


@pytest.fixture
def folder(tmp_path, monkeypatch, drawn):
    """Samples to fit and to test with, in the current folder."""
    logits, y = drawn.calibration
    np.savez(tmp_path / "val.npz", logits=logits[y >= 0], y=y[y >= 0])
    np.savez(tmp_path / "ood.npz", logits=logits[y < 0])
    np.savez(tmp_path / "test.npz", logits=drawn.shifted.logits, y=drawn.shifted.y)
    np.savez(tmp_path / "strange.npz", logits=drawn.ood.logits)
    monkeypatch.chdir(tmp_path)
    return tmp_path
