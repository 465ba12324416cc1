"""The commands on a cluster of real processes."""

import json

import numpy as np
import pytest

pytest.importorskip("distributed", reason="dask and distributed are not installed")

from wildcal.cli.main import run

pytestmark = pytest.mark.filterwarnings("ignore::wildcal._old.core.errors.CalibrationWarning")


@pytest.fixture(scope="module")
def few(tmp_path_factory, make_rows):
    """Two shards."""
    folder = tmp_path_factory.mktemp("few")
    logits, y = make_rows(600, 4)
    for i in range(2):
        rows = slice(300 * i, 300 * (i + 1))
        np.savez(folder / f"{i}.npz", logits=logits[rows], y=y[rows])
    return folder


def test_commands_on_a_cluster(few, cluster, processes, tmp_path, capsys):
    path, out = tmp_path / "ts.json", tmp_path / "out"
    there = ["--scheduler", processes.address]
    assert run(["fit", str(few), "--method", "ts", *there, "-o", str(path)]) == 0
    assert "moved, and no logits" in capsys.readouterr().err
    assert run(["evaluate", f"{few}/*.npz", "--with", str(path), *there, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ts"]["metrics"]["ece"]["value"] >= 0
    assert run(["compare", str(few), str(few), "--methods", "ts,ets", *there, "--json"]) == 0
    assert run(["apply", str(path), str(few), *there, "-o", str(out)]) == 0
    assert np.load(out / "000000.npz")["proba"].shape == (600, 4)
    assert run(["fit", "x.npz", *there, "-o", str(path)]) == 2
    assert run(["fit", str(few), "--scheduler", "tcp://127.0.0.1:1", "-o", str(path)]) == 1
