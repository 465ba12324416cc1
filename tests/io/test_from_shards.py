"""What is fitted, measured, applied and estimated from shards is that of the array."""

import json
import resource

import numpy as np
import pytest

from wildcal._old.accuracy import ESTIMATORS, make_estimator
from wildcal._old.calibrators import CALIBRATORS, WINDOW_METHODS, ContextScaling, make_calibrator
from wildcal.cli.main import run
from wildcal._old.core import room
from wildcal._old.core.engine import watched_by
from wildcal._old.core.errors import TooLargeError
from wildcal._old.core.odd_environments import environment_notes
from wildcal._old.core.parallel import use_threads
from wildcal._old.core.rows import check_rows
from wildcal._old.core.span import span
from wildcal._old.evaluation import evaluate_calibrator
from wildcal._old.io import save
from wildcal._old.io.sources import open_shards, write_shards

pytestmark = pytest.mark.filterwarnings("ignore::wildcal._old.core.errors.CalibrationWarning")

N, K = 30_000, 4  # two blocks


def made(n, shift=0.5):
    """Rows of four environments, the clean one in the middle."""
    rng = np.random.default_rng(0)
    y, environment = rng.integers(0, K, n), np.roll(np.repeat(np.arange(4), n // 4), n // 3)
    logits = 1.5 * rng.standard_normal((n, K)).astype(np.float32)
    logits[np.arange(n), y] += 3 - shift * environment
    return {"logits": logits, "y": y, "environment": environment}


def shards_of(rows, folder):
    n = len(rows["y"])
    for i, (a, b) in enumerate(((0, 1), (1, n // 3), (n // 3, n))):
        np.savez(folder / f"{i}.npz", **{name: column[a:b] for name, column in rows.items()})
    return open_shards(folder)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    rows = made(N)
    rows["weight"] = np.random.default_rng(1).random(N)
    return rows, shards_of(rows, tmp_path_factory.mktemp("large"))


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    rows = made(800)
    return rows, shards_of(rows, tmp_path_factory.mktemp("few"))


def bytes_of(fitted, path):
    save(fitted, path)
    return path.read_bytes()


def fit_array(method, rows):
    environment = rows["environment"] if "environment" in method.reads else None
    return method.fit(
        rows["logits"], rows["y"], sample_weight=rows.get("weight"), environment=environment
    )


def test_fits_over_several_blocks(large, tmp_path):
    rows, source = large
    with use_threads(3):
        here = bytes_of(fit_array(ContextScaling(), rows), tmp_path / "a.json")
    with use_threads(1):
        assert bytes_of(ContextScaling().fit(source), tmp_path / "b.json") == here


# They hold all rows, and the same code sees them.
HOLD_ROWS = [n for n in (*CALIBRATORS, *WINDOW_METHODS) if make_calibrator(n).state == "rows"]


@pytest.mark.parametrize("name", HOLD_ROWS)
def test_methods_that_hold_rows_read_them_or_refuse(name, few, tmp_path, monkeypatch):
    rows, source = few
    if name in ("match+cot", "ts", "window"):
        here = bytes_of(fit_array(make_calibrator(name), rows), tmp_path / "a.json")
        assert bytes_of(make_calibrator(name).fit(source), tmp_path / "b.json") == here
    monkeypatch.setattr(room, "free_bytes", lambda: source.nbytes * 1.5)
    with pytest.raises(TooLargeError, match=r"holds all rows.*one row in 2, .*docs.scale.md"):
        make_calibrator(name).fit(source)


def test_what_there_is_room_for(monkeypatch, tmp_path):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 30, 1 << 40))
    assert 0 <= room.free_bytes() < 1 << 30
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    monkeypatch.setattr(room, "_GROUP", tmp_path)
    free = room.free_bytes()
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.stat").write_text("anon 300\nfile 600\n")
    assert room.free_bytes() == 700 < free
    (tmp_path / "memory.max").write_text("max\n")
    assert room.free_bytes() > 700


def test_a_window_over_shards(large, few, tmp_path):
    rows, source = large
    fitted = ContextScaling().fit(few[1])
    around = fitted.context(rows["logits"])
    assert fitted.context(source) == around
    here = evaluate_calibrator(fitted, rows["logits"], rows["y"], window=True, n_boot=0)
    there = evaluate_calibrator(fitted, source, window=True)
    assert there.ece == pytest.approx(here.ece, rel=1e-12)
    paths = write_shards(fitted, source, tmp_path, context=around, shard_bytes=400_000)
    assert sorted(map(str, tmp_path.iterdir())) == paths
    assert len(paths) > 2
    written = np.concatenate([np.load(path)["proba"] for path in paths])
    expected = fitted.predict_proba(rows["logits"], context=around)
    np.testing.assert_array_equal(written, expected)


def test_window_scaling_over_shards(large, few, tmp_path):
    rows, source = large
    fitted = fit_array(make_calibrator("window"), few[0])
    here = evaluate_calibrator(fitted, rows["logits"], rows["y"], window=True, n_boot=0)
    assert evaluate_calibrator(fitted, source, window=True).ece == pytest.approx(here.ece, abs=1e-9)
    paths = write_shards(fitted.adapted_to(source), source, tmp_path, shard_bytes=400_000)
    written = np.concatenate([np.load(path)["proba"] for path in paths])
    np.testing.assert_allclose(written, fitted.predict_proba(rows["logits"]), atol=1e-6)


def test_other_classes_in_a_window_over_shards_are_refused(few, tmp_path):
    rows, source = few
    fitted = ContextScaling().fit(source)
    with_others = shards_of(rows | {"y": np.where(np.arange(800) < 9, -1, rows["y"])}, tmp_path)
    with pytest.raises(ValueError, match="labels everywhere, got rows of other classes"):
        evaluate_calibrator(fitted, with_others, window=True)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimates_of_accuracy(name, few, large):
    rows, source = few
    estimator = make_estimator(name)
    second = {"second": rows["logits"][::-1]} if estimator.needs_second else {}
    estimator.fit(rows["logits"], rows["y"], rows["environment"], **second)
    assert vars(make_estimator(name).fit(source, **second)).keys() == vars(estimator).keys()
    window, from_shards = (large[0]["logits"], large[1]) if estimator.mergeable else few
    window = window if estimator.mergeable else rows["logits"]
    from_shards = from_shards if estimator.mergeable else source
    beside = {"second": window[::-1]} if estimator.needs_second else {}
    assert estimator.estimate(from_shards, **beside) == estimator.estimate(window, **beside)


def test_an_estimator_that_holds_the_window_refuses_what_does_not_fit(few, monkeypatch):
    rows, source = few
    estimator = make_estimator("cot").fit(rows["logits"], rows["y"])
    monkeypatch.setattr(room, "free_bytes", lambda: 0.0)
    with pytest.raises(TooLargeError, match="ConfidenceTransport holds all rows"):
        estimator.estimate(source)


def test_odd_environments_are_found_in_shards(tmp_path):
    rows = made(4000, shift=0.0)
    strange = rows["environment"] == 2
    rows["y"][strange] = (rows["y"][strange] + 1) % K
    source = shards_of(rows, tmp_path)
    columns = {name: rows[name] for name in ("y", "environment")}
    notes = environment_notes(check_rows(rows["logits"], **columns))
    assert notes[0].startswith("environment 2:")
    seen = check_rows(source, y=source.y, environment=source.environment)
    assert environment_notes(seen) == notes


def test_spans_of_spans(few):
    rows, source = few
    inner = span(span(source, 100, 700), 50, 60)
    assert (inner.shape, inner.offset) == ((10, K), 150)
    np.testing.assert_array_equal(inner[2::3], rows["logits"][152:160:3])
    assert span(None, 1, 2) is None


def test_who_watches_is_told_of_every_walk(large):
    told = []
    with use_threads(1), watched_by(lambda done, total: told.append((done, total))):
        make_calibrator("ts").fit(large[1])
    assert told
    assert all(pair == (1, 1) for pair in told)


def test_commands(few, tmp_path, capsys):
    folder = few[1].parts[0].path.rpartition("/")[0]
    path, out = str(tmp_path / "window.json"), str(tmp_path / "out")
    assert run(["fit", folder, "--method", "window", "-o", path]) == 0
    assert run(["apply", path, folder, "--window", "all", "-o", out]) == 0
    assert "Wrote 800 rows to 1 shards" in capsys.readouterr().err
    assert run(["apply", path, folder, "--window", "5", "-o", out]) == 2
    assert run(["evaluate", folder, "--with", path, "--window", "all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["window"]["metrics"]["ece"]["value"] >= 0
    accuracy = str(tmp_path / "accuracy.json")
    assert run(["accuracy", "fit", folder, "-o", accuracy]) == 0
    assert run(["accuracy", "estimate", accuracy, folder, "--window", "300", "--json"]) == 0
    assert [e["n"] for e in json.loads(capsys.readouterr().out)] == [300, 300, 200]
