"""A folder as a user would have it, for commands on files; some files of tests have their own."""

import numpy as np
import pytest

from wildcal._old.testing import make_suite


@pytest.fixture(scope="session")
def drawn():
    """Logits with a known truth; `make_suite` explains them."""
    return make_suite(0, n_tuning=800, n_ood_tuning=80, n_test=500)


@pytest.fixture
def folder(tmp_path, monkeypatch, drawn):
    """Rows to tune and to test with, and the shell standing beside them."""
    known = drawn.tuning.y >= 0
    np.savez(tmp_path / "val.npz", logits=drawn.tuning.logits[known], y=drawn.tuning.y[known])
    np.savez(tmp_path / "ood.npz", logits=drawn.tuning.logits[~known])
    np.savez(tmp_path / "test.npz", logits=drawn.shifted.logits, y=drawn.shifted.y)
    np.savez(tmp_path / "strange.npz", logits=drawn.ood.logits)
    monkeypatch.chdir(tmp_path)
    return tmp_path
