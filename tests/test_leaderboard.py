"""The leaderboard: its rule for tables, its scores and its tables, by hand."""

import csv
import io
import pickle
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from wildcal import CALIBRATORS, ConfidenceMatching

ROOT = Path(__file__).parents[1]


@pytest.fixture
def part(monkeypatch, needs):
    """Import a module of the leaderboard."""
    needs("sklearn")
    needs("pandas")
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: import_module(f"benchmarks.leaderboard.{name}")


def two_classes(n, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2)) * 2
    return scale * z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def test_rule_takes_the_last_column_that_can_be_a_label(part):
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 1_000
    frame = pd.DataFrame({"first": rng.choice(["a", "b"], n), "label": rng.choice([*"xyz"], n)})
    frame["rare"], frame["number"] = np.where(np.arange(n) < 5, "p", "q"), rng.normal(size=n)
    frame["id"] = [f"row {i}" for i in range(n)]
    frame["copy"] = frame["label"].map({"x": 1, "y": 2, "z": 3})
    tables = part("tables")
    assert tables.find_label(frame) == "label"
    # "id" names the row, "copy" gives the label away, "rare" is a feature like others.
    assert tables.usable_features(frame, "label") == ["first", "rare", "number"]
    X = tables.encode(frame[["first", "number"]])
    assert X.shape == (n, 3)
    np.testing.assert_allclose(X.mean(axis=0)[-1], 0, atol=1e-12)


def test_unpickler_reads_arrays_and_nothing_else(part):
    reader = part("published")._ArraysOnly
    arrays = [np.arange(6.0).reshape(2, 3), np.array([1, 0])]
    found = reader(io.BytesIO(pickle.dumps(arrays, protocol=3))).load()
    np.testing.assert_array_equal(found[0], arrays[0])
    with pytest.raises(pickle.UnpicklingError, match="must not be in a file"):
        reader(io.BytesIO(pickle.dumps(print))).load()


def test_scores_by_hand(part):
    proba = np.array([[0.8, 0.2], [0.4, 0.6]])
    found = part("run").score(np.array([0, 0]), proba)
    assert float(found["nll"]) == pytest.approx(-(np.log(0.8) + np.log(0.4)) / 2, abs=1e-6)
    assert float(found["brier"]) == pytest.approx((0.04 + 0.04 + 0.36 + 0.36) / 2, abs=1e-6)


def test_every_calibrator_takes_part(part):
    contestants = part("contestants")
    assert set(CALIBRATORS) == set(contestants.OURS) | (
        set(CALIBRATORS) & set(contestants._LEFT_OUT)
    )


def test_a_run_is_continued(part, tmp_path, monkeypatch):
    run, predictions = part("run"), part("predictions")
    monkeypatch.setattr(run, "FAST_PEERS", ["sklearn sigmoid", "betacal abm"])
    monkeypatch.setattr(run, "OURS", ["auto", "ts"])
    monkeypatch.setattr(run, "SLOW_PEERS", [])
    X, y = two_classes(700, scale=3.0)
    source = predictions.Source("made", "model", "tables", lambda: predictions.Predictions(X, y))
    run.run([source], tmp_path)
    path = tmp_path / "scores" / "made--model.csv"
    first = path.read_text()
    rows = list(csv.DictReader(io.StringIO(first)))
    assert {row["n"] for row in rows} == {"50", "200"}  # 400 must remain to test on
    ts = [row for row in rows if row["method"] == "ts" and row["n"] == "200"]
    raw = [row for row in rows if row["method"] == "uncalibrated" and row["n"] == "200"]
    assert all(float(a["nll"]) < float(b["nll"]) for a, b in zip(ts, raw, strict=True))
    run.run([source], tmp_path)
    assert path.read_text() == first


def test_failures_are_counted(part):
    results = part("results")
    head = {"data": "d", "model": "m", "kind": "tables", "n_classes": "2", "n": "50"}
    good = {"nll": "0.5", "brier": "0.3", "excess_ece": "0.01", "seconds": "0.1", "error": ""}
    rows = [head | good | {"draw": str(i), "method": "uncalibrated"} for i in (0, 1)]
    rows.append(head | good | {"draw": "0", "method": "ts", "nll": "0.6"})
    rows.append(head | {"draw": "1", "method": "ts", "error": "ValueError: no"})
    tables = results.aggregate(rows)
    key = ("d", "m", "tables", "2", "50")
    assert tables["failed"][key]["ts"] == "0.5"
    assert tables["nll"][key]["ts"] == "0.20000"
    assert tables["harmed"][key]["ts"] == "1."


def test_ranks_and_regret_by_hand(part):
    report = part("report")
    columns = {"uncalibrated": [0.5, 0.5], "auto": [-0.1, -0.1], "ts": [-0.2, 0.1]}
    nll = {name: np.array(values) for name, values in columns.items()}
    empty = {name: np.full(2, np.nan) for name in nll}
    results = report.Results(
        np.array(["a", "b"]), np.array(["tables"] * 2), np.array([2.0, 2.0]),
        np.array(["50", "50"]), {"nll": nll, "failed": empty, "harmed": empty},
    )  # fmt: skip
    rank = report.ranks(results, list(nll))
    assert rank["ts"].tolist() == [1, 3]
    assert rank["uncalibrated"].tolist() == [3, 2]
    # The best single method is ts, then no calibration.
    np.testing.assert_allclose(report.regret(results, "auto"), [0.9 / 0.8 - 1, -0.1])
    assert report.mean(np.array([1.0, 3.0, 5.0]), np.array(["a", "a", "b"]))[0] == 3.5


def test_what_is_left_out_by_time_comes_later(part):
    shift, predictions = part("shift"), part("predictions")
    made = predictions.Predictions([], [], domain=[], domain_names=("2015", "2016", "2017"))
    source = predictions.Source("d", "m", "tables by time", lambda: made)
    assert list(shift.folds(source, made)) == [(2, (0, 1))]
    source = predictions.Source("d", "m", "tables by place", lambda: made)
    assert list(shift.folds(source, made)) == [(1, (0, 2)), (2, (0, 1))]


def test_targets_are_read_from_the_results(part):
    """The committed csv files give every table."""
    for made in part("report").MADE.values():
        header, rule, *lines = made().splitlines()
        assert lines
        assert {line.count("|") for line in (header, rule, *lines)} == {header.count("|")}


@pytest.mark.slow
def test_rivals_of_the_window_study_run(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    places = import_module("rivals").NAMES.values()
    scores = import_module("rivals.scores")
    rivals = [getattr(import_module(f"rivals.{m}"), c)() for m, c in (p.split(":") for p in places)]
    kinds, (X, y) = (scores.NuclearNorm, scores.MaNo, scores.MDE), two_classes(900)
    for rival in [*rivals, *(ConfidenceMatching(estimator=kind()) for kind in kinds)]:
        p = rival.fit(X, y, domain=np.arange(900) % 3).predict_proba(X[:100])
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
