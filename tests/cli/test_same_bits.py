"""A file has the same bytes on machines with one core and with many."""

import os
import subprocess
import sys

import numpy as np
import pytest


def fitted(folder, method, threads):
    """Return the file that the command writes, with so many threads of linear algebra asked for."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    words = ["-m", "wildcal", "fit", "rows.npz", "--method", method, "-o", "cal.json", "--quiet"]
    subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment | threads, check=True, timeout=300
    )
    return (folder / "cal.json").read_bytes()


@pytest.mark.parametrize("method", ["energy", "vector"])
def test_threads_of_linear_algebra(tmp_path, method):
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((40_000, 5), np.float32)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(tmp_path / "rows.npz", logits=logits, y=y)
    one = fitted(tmp_path, method, {"OPENBLAS_NUM_THREADS": "1"})
    assert fitted(tmp_path, method, {"OPENBLAS_NUM_THREADS": "2"}) == one
