"""A cluster of real processes gives the bits of one thread, whatever happens to its workers."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed", reason="dask and distributed are not installed")

from wildcal.accuracy import make_estimator
from wildcal.calibrators import (
    CALIBRATORS,
    ContextScaling,
    EnergyScaling,
    TemperatureScaling,
    make_calibrator,
)
from wildcal.cli.main import run
from wildcal.core.engine import use_engine
from wildcal.core.errors import CalibrationWarning, EngineError, FileFormatError
from wildcal.core.parallel import use_threads
from wildcal.engine import Cluster
from wildcal.engine.workers import check_workers
from wildcal.evaluation import evaluate_calibrator
from wildcal.io import save
from wildcal.io.sources import from_dask, open_shards, write_shards
from wildcal.metrics.registry import METRICS
from wildcal.version import __version__

pytestmark = pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")


def saved(calibrator, path):
    save(calibrator, path)
    return path.read_bytes()


def on_threads(work, n):
    with use_engine(_Here()), use_threads(n):
        return work()


class _Here:
    """The threads of this process, although a client is active."""

    def run(self, walk, source):
        return [walk.group(number) for number in range(walk.groups)]


@pytest.fixture(scope="module")
def few(tmp_path_factory, make_rows):
    """A small set for the methods that take many passes."""
    folder = tmp_path_factory.mktemp("few")
    logits, y = make_rows(600, 4)
    for i in range(2):
        rows = slice(300 * i, 300 * (i + 1))
        np.savez(folder / f"{i}.npz", logits=logits[rows], y=y[rows])
    return folder


@pytest.mark.parametrize(
    "name", [name for name in CALIBRATORS if make_calibrator(name).state != "rows"]
)
def test_every_fit_has_the_bits_of_the_array(name, few, cluster, tmp_path, make_rows):
    logits, y = make_rows(600, 4)
    with use_engine(cluster):
        there = make_calibrator(name).fit(open_shards(few))
    here = make_calibrator(name).fit(logits, y)
    assert saved(there, tmp_path / "a.json") == saved(here, tmp_path / "b.json")


def test_workers_threads_and_one_thread_agree_to_the_bit(shards, cluster, tmp_path, make_rows):
    source = open_shards(shards)
    found = set()
    before = cluster.bytes_moved
    with use_engine(cluster):
        found.add(saved(EnergyScaling().fit(source), tmp_path / "there.json"))
    for n in (1, 3):
        with use_threads(n):
            logits, y = make_rows()
            found.add(saved(EnergyScaling().fit(logits, y), tmp_path / f"{n}.json"))
    assert len(found) == 1
    # Sums travel, and no logits.
    assert 0 < cluster.bytes_moved - before < source.nbytes / 20


def test_every_metric_is_the_same_there_as_here(shards, cluster):
    source = open_shards(shards)
    fitted = TemperatureScaling().fit(source[:5000], source.y[:5000])
    names = [n for n, metric in METRICS.items() if metric.flat and metric.needs != "ood"]
    with use_engine(cluster):
        there = evaluate_calibrator(fitted, source, metrics=names)
    here = on_threads(lambda: evaluate_calibrator(fitted, source, metrics=names), 1)
    assert {n: there[n] for n in there} == {n: here[n] for n in here}
    assert set(there) == set(names)
    plain = evaluate_calibrator(fitted, source[:], source.y[:], metrics=names, n_boot=0)
    for name in names:
        assert there[name] == pytest.approx(plain[name], rel=1e-9, abs=1e-12), name


def test_dask_arrays_on_the_cluster(cluster, make_rows):
    import dask.array as da

    logits, y = make_rows(200_000)
    source = from_dask(da.from_array(logits, chunks=(33_000, 10)), da.from_array(y, chunks=70_000))
    with use_engine(cluster):
        there = TemperatureScaling().fit(source)
    assert there.temperature_ == TemperatureScaling().fit(logits, y).temperature_


@pytest.fixture(scope="module")
def environments(make_rows):
    """Rows of two environments, the clean one last, and a little of the other around it."""
    logits, y = make_rows(6_000, 4)
    environment = np.ones(6_000, np.int64)
    environment[2_000:5_990] = 0
    logits[environment == 1] *= np.float32(0.6)
    return logits, y, environment


@pytest.mark.parametrize("kind", ["shards", "dask"])
def test_a_context_is_learned_on_the_cluster(kind, environments, cluster, tmp_path):
    """The clean rows are a span of the source, which no piece begins with."""
    import dask.array as da

    logits, y, environment = environments
    if kind == "shards":
        for i, rows in enumerate((slice(0, 3_100), slice(3_100, None))):
            columns = {"logits": logits[rows], "y": y[rows], "environment": environment[rows]}
            np.savez(tmp_path / f"{i}.npz", **columns)
        source = open_shards(tmp_path)
    else:
        columns = [da.from_array(c, chunks=1_700) for c in (y, environment)]
        rows = da.from_array(logits, chunks=(900, 4))
        source = from_dask(rows, columns[0], environment=columns[1])
    here = saved(ContextScaling().fit(logits, y, environment=environment), tmp_path / "here.json")
    with use_engine(cluster):
        there = ContextScaling().fit(source)
        around = there.context(source)
    assert saved(there, tmp_path / "there.json") == here
    assert around == there.context(logits)


def test_accuracy_is_estimated_on_the_cluster(shards, cluster):
    source = open_shards(shards)
    estimator = make_estimator("atc-ne").fit(source[:3000], source.y[:3000])
    before = cluster.bytes_moved
    with use_engine(cluster):
        there = estimator.estimate(source)
    assert there == estimator.estimate(source[:])
    assert 0 < cluster.bytes_moved - before < source.nbytes / 20


def test_the_workers_write_shards(shards, cluster, tmp_path):
    source = open_shards(shards)
    fitted = TemperatureScaling().fit(source[:3000], source.y[:3000])
    with use_engine(cluster):
        there = write_shards(fitted, source, tmp_path / "there", shard_bytes=500_000)
    here = on_threads(
        lambda: write_shards(fitted, source, tmp_path / "here", shard_bytes=500_000), 1
    )
    assert len(there) == len(here) > 16
    for a, b in zip(there, here, strict=True):
        assert Path(a).read_bytes() == Path(b).read_bytes()


@pytest.mark.parametrize("what", ["fit", "evaluation"])
def test_a_worker_killed_in_the_middle_changes_nothing(
    what, shards, cluster, processes, monkeypatch, tmp_path
):
    source = open_shards(shards)
    fitted = TemperatureScaling().fit(source[:5000], source.y[:5000])

    def work():
        if what == "fit":
            return saved(TemperatureScaling().fit(source), tmp_path / "ts.json")
        return evaluate_calibrator(fitted, source, metrics=["ece", "aurc"]).to_dict()

    expected = on_threads(work, 1)
    submit, walks = Cluster._submit, []

    def submit_and_kill(self, *given):
        futures = submit(self, *given)
        walks.append(len(futures))
        if len(walks) == 2:
            processes.workers[0].kill()
        return futures

    monkeypatch.setattr(Cluster, "_submit", submit_and_kill)
    with use_engine(cluster):
        assert work() == expected
    assert len(walks) >= 2
    processes.workers.pop(0).wait()
    processes.worker()


def test_files_that_only_the_client_can_see(shards, cluster, tmp_path):
    hidden = tmp_path / "hidden.npz"
    hidden.write_bytes((shards / "1.npz").read_bytes())
    seen = open_shards([hidden])
    hidden.unlink()  # what a worker on another machine finds
    with use_engine(cluster), pytest.raises(FileFormatError, match=r"on the worker tcp.*not there"):
        list(cluster.run(_walk_over(seen), seen))


def _walk_over(source):
    from functools import partial

    from wildcal.core.blocks import Walk, _begin_blocks, added

    return Walk(len(source), 10_000, partial(_begin_blocks, source, lambda b: b.n, 10_000), added)


def test_a_worker_of_another_version_is_refused(cluster, processes, tmp_path):
    other = tmp_path / "wildcal"
    other.mkdir()
    (other / "__init__.py").touch()
    (other / "version.py").write_text('__version__ = "0.0.1"')
    process = processes.worker(env={"PYTHONPATH": str(tmp_path)})
    try:
        with pytest.raises(EngineError, match=r"has wildcal 0.0.1, and here is .* pip install"):
            check_workers(cluster.client, frozenset())
    finally:
        ended(process, processes, cluster)


def test_a_worker_without_wildcal_is_refused_with_the_pip_line(cluster, processes, tmp_path):
    """A file under its name hides the package, as if it were not installed."""
    (tmp_path / "wildcal.py").write_text("raise ModuleNotFoundError('No module named wildcal')")
    process = processes.worker(env={"PYTHONPATH": str(tmp_path)})
    try:
        pip = rf'has no wildcal, .*pip install "wildcal.dask.=={re.escape(__version__)}"'
        with pytest.raises(EngineError, match=pip):
            check_workers(cluster.client, frozenset())
    finally:
        ended(process, processes, cluster)


def ended(process, processes, cluster):
    """End a worker, and wait until the scheduler knows."""
    process.kill()
    process.wait()
    processes.workers.remove(process)
    while len(cluster.client.nthreads()) > 2:
        pass


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


def test_the_scheduler_killed_is_one_line_and_leaves_nothing(
    few, tmp_path, monkeypatch, capsys, processes
):
    mine = type(processes)(tmp_path)
    try:
        mine.worker()
        submit = Cluster._submit

        def submit_and_kill(self, *given):
            futures = submit(self, *given)
            mine.scheduler.kill()
            return futures

        path = tmp_path / "ts.json"
        words = ["fit", str(few), "--method", "ts", "-o", str(path)]
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            patch.setattr(Cluster, "_submit", submit_and_kill)
            assert run([*words, "--scheduler", mine.address]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert "is gone. Nothing is left half written" in lines[0]
        assert not path.exists()
        assert run(words) == 0
    finally:
        mine.end()
