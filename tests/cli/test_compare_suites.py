"""`wildcal compare` on suites: what it prints is what the protocol computed."""

import csv
import io
import json

import numpy as np
import pytest

from wildcal.cli.main import run
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.evaluation.protocol import choose_methods, run_protocol
from wildcal._old.evaluation.suite_table import suite_table
from wildcal._old.io.suite import Suite, SuiteWriter


def write_suite(
    folder, types=("fog", "snow"), levels=range(1, 6), sets=("svhn", "textures"), scale=3.0
):
    rng = np.random.default_rng(0)
    writer = SuiteWriter(
        folder, network={}, data={}, seed=0, versions={}, n_classes=3, class_names="abc"
    )

    def draw(n, noise):
        y = rng.integers(0, 3, n)
        clean = 2.0 * np.eye(3)[y] + rng.normal(size=(n, 3))
        return (scale * (clean + noise * rng.normal(size=(n, 3)))).astype(np.float32), y

    writer.add("validation", *draw(500, 0.0), role="tune", shift="none")
    for role, n in (("tune", 40), ("test", 60)):
        for name in sets:
            z = rng.normal(size=(n, 3)).astype(np.float32)
            writer.add(f"{name}-{role}", z, np.full(n, -1), role=role, shift="semantic")
    writer.add("test", *draw(400, 0.0), role="test", shift="none")
    for kind in types:
        for level in levels:
            writer.add(
                f"{kind}-{level}",
                *draw(300, 0.4 * level),
                role="test",
                shift="covariate",
                corruption=kind,
                severity=level,
            )
    writer.finish(list(writer.names))
    return Suite.open(folder)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suites") / "mine")


def test_csv_is_the_tidy_table(suite, capsys):
    words = [
        "compare",
        str(suite.path),
        "--methods",
        "ts,energy",
        "--bootstrap",
        "20",
        "--csv",
        "-",
    ]
    assert run(words) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    metrics = ("accuracy", "mean_confidence", "ece", "ood_auroc")
    results = run_protocol(
        {"mine": suite}, choose_methods(["identity", "ts", "energy"]), metrics=metrics, n_boot=20
    )
    assert len(found) == len(results.records)
    for row, record in zip(found, results.records, strict=True):
        assert (row["split"], row["method"], row["metric"]) == (
            record.split,
            record.method,
            record.metric,
        )
        assert float(row["value"]) == record.value


def test_json(suite, capsys):
    words = ["compare", str(suite.path), "--methods", "ts", "--bootstrap", "0", "--json"]
    assert run(words) == 0
    records = json.loads(capsys.readouterr().out)
    assert {r["method"] for r in records} == {"identity", "ts"}
    assert {r["suite"] for r in records} == {"mine"}


def test_table_shows_the_averages(suite, capsys):
    words = ["compare", str(suite.path), "--methods", "ts,energy-no-ood", "--bootstrap", "20"]
    assert run(words) == 0
    out = capsys.readouterr().out
    results = run_protocol(
        {"mine": suite}, choose_methods(["identity", "ts", "energy-no-ood"]), n_boot=20
    )
    for method in ("identity", "ts", "energy-no-ood"):
        average = results.average("mine", method)
        line = next(line for line in out.splitlines() if f" {method} " in line)
        assert f"{100 * average.value:.2f} ({100 * average.low:.2f} to" in line
        for level in average.levels:
            assert f"{100 * level:.2f}" in line
    assert "confidence on textures-test" in out
    assert "confidence on svhn-test" not in out  # it was tuned with


def test_rows_are_sorted_and_compared_with_the_best(suite):
    results = run_protocol(
        {"s": suite}, choose_methods(["identity", "ts"]), metrics=("ece",), n_boot=100
    )
    table = suite_table(results, "s")
    first, second = table.texts()
    assert [first[0], second[0]] == ["ts", "identity"]
    assert first[3] == "best"
    gap = results.average("s", "identity").value - results.average("s", "ts").value
    assert second[3] == f"+{100 * gap:.2f}"
    bars = second[table.heads.index("by severity")]
    assert len(bars) == 6
    assert (
        bars[
            list(results.average("s", "identity").levels).index(
                max(results.average("s", "identity").levels)
            )
        ]
        == "█"
    )


def test_suite_without_all_levels(tmp_path, capsys):
    write_suite(tmp_path / "part", levels=(1, 2))
    words = ["compare", str(tmp_path / "part"), "--methods", "ts", "--bootstrap", "20"]
    assert run(words) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.strip().startswith("ts"))
    assert " - " in line


def test_wrong_words(suite, tmp_path, capsys):
    assert run(["compare", str(suite.path), "--ood", "x.npz"]) == 2
    assert "a suite, which brings its labels" in capsys.readouterr().err
    assert run(["compare", str(suite.path), str(tmp_path / "val.npz"), "a.npz"]) == 2
    assert "unexpected extra argument" in capsys.readouterr().err
    assert run(["compare", str(suite.path), str(suite.path)]) == 1
    assert "`wildcal suite compare` takes suites" in capsys.readouterr().err
    assert run(["compare", str(suite.path), "--methods", "tss"]) == 2
    assert "there is no method 'tss'; did you mean 'ts'?" in capsys.readouterr().err
    assert run(["suite", "compare", str(suite.path), str(suite.path)]) == 2
    assert "two suites have the same name" in capsys.readouterr().err


def test_one_file_that_is_no_suite(tmp_path, capsys):
    (tmp_path / "cut.npz").write_bytes(b"PK cut short")
    assert run(["compare", str(tmp_path / "cut.npz")]) == 1
    assert "is not a suite" in capsys.readouterr().err


def test_the_set_to_tune_with_is_chosen(suite, capsys):
    words = ["suite", "compare", str(suite.path), "--methods", "energy", "--bootstrap", "0"]
    for chosen, tested in (("svhn", "textures-test"), ("textures", "svhn-test")):
        assert run([*words, "--ood", chosen, "--ood-rows", "30", "--json"]) == 0
        records = json.loads(capsys.readouterr().out)
        assert {r["split"] for r in records if r["shift"] == "semantic"} == {tested}
        assert "30 " in next(r["knew"] for r in records if r["method"] == "energy")
    assert run([*words, "--ood", "flowers"]) == 1
    assert "no tuning rows of 'flowers'; it has svhn, textures" in capsys.readouterr().err


def test_a_set_that_is_alone_is_tested_on_other_rows(tmp_path):
    suite = write_suite(tmp_path / "alone", types=("fog",), sets=("svhn",))
    results = run_protocol({"alone": suite}, choose_methods(["ts", "energy"]))
    assert results.ood_splits("alone") == ["svhn-test"]
    notes = " ".join(suite_table(results, "alone").notes)
    assert "svhn-test: other rows of the set that methods were tuned with." in notes


def test_the_floor_is_taken_off_the_average(suite):
    results = run_protocol({"mine": suite}, choose_methods(["ts"]))
    table = suite_table(results, "mine")
    heads = [column.head for column in table.columns]
    average, beyond, floor = (
        table.rows[0][heads.index(head)].value
        for head in ("average ECE", "beyond the floor", "noise floor")
    )
    assert 0 < floor < average
    assert beyond == pytest.approx(average - floor)


def test_rough_metrics_are_named_once(tmp_path):
    sure = write_suite(tmp_path / "sure", types=("fog",), scale=1e5)
    with pytest.warns(CalibrationWarning) as caught:
        run_protocol({"sure": sure}, choose_methods(["identity"]), metrics=("kde_ece",))
    (message,) = (str(w.message) for w in caught)
    assert message.startswith("sure: identity on test: kde_ece is rough: ")
    assert message.endswith(" So it is in 5 more.")
