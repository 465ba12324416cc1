"""`wildcal fit --method window`, and the window of `apply` and `evaluate`."""

import csv
import io
import warnings

import numpy as np
import pytest

from wildcal import TemperatureScaling, WindowScaling, load
from wildcal.cli.main import run
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.evaluation import environments, evaluate
from wildcal._old.io import load as load_old
from wildcal._old.io import read_table
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.testing import make_suite


def draw():
    drawn = make_suite(0, n_tuning=1200, n_ood_tuning=80, n_test=400)
    known = drawn.tuning.y >= 0
    z, y = drawn.tuning.logits[known], drawn.tuning.y[known]
    environment = np.arange(len(y)) % 4
    rng = np.random.default_rng(0)
    z = z + environment[:, None] * rng.normal(size=z.shape).astype(z.dtype)
    return z, y, environment, drawn


Z, Y, ENVIRONMENT, DRAWN = draw()
STRANGERS = DRAWN.tuning.logits[DRAWN.tuning.y < 0]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("all.npz", logits=Z, y=Y, environment=ENVIRONMENT)
    np.savez("val.npz", logits=Z, y=Y)
    np.save("environments.npy", ENVIRONMENT)
    np.savez("ood.npz", logits=STRANGERS)
    np.savez("test.npz", logits=DRAWN.shifted.logits, y=DRAWN.shifted.y)
    np.savez("test-ood.npz", logits=DRAWN.ood.logits)
    return tmp_path


def fitted(*words):
    assert run(["fit", "--method", "window", *words, "-o", "window.json"]) == 0
    return load("window.json")


def same(found, expected):
    z = DRAWN.shifted.logits
    np.testing.assert_allclose(found.predict_proba(z), expected.predict_proba(z), atol=1e-6)


def test_environments_in_the_file(files, capsys):
    same(fitted("all.npz"), WindowScaling().fit(Z, Y, domain=ENVIRONMENT))
    assert "on 1,200 rows of 10 classes" in (said := capsys.readouterr().err)
    assert "It used 4 environments." in said


def test_environments_in_a_file_of_their_own(files):
    expected = WindowScaling().fit(Z, Y, domain=ENVIRONMENT)
    same(fitted("val.npz", "--environments", "environments.npy"), expected)


def test_environments_in_a_csv(files):
    columns = [*(f"c{k}" for k in range(10)), "y", "environment"]
    rows = np.column_stack([Z.astype(np.float64), Y, ENVIRONMENT])
    np.savetxt("all.csv", rows, "%.9g", ",", header=",".join(columns), comments="")
    table = read_table("all.csv")
    np.testing.assert_array_equal(table.environment, ENVIRONMENT)
    assert table.logits.shape == Z.shape
    expected = WindowScaling().fit(table.logits, Y, domain=ENVIRONMENT)
    same(fitted("all.csv"), expected)
    header = "environment\n"
    (files / "e.csv").write_text(header + "\n".join(map(str, ENVIRONMENT)))
    same(fitted("all.csv", "--environments", "e.csv"), expected)


def test_huge_numbers_of_environments(files):
    expected = fitted("all.npz")
    for largest in (np.uint64(2**64 - 1), np.int64(2**63 - 1)):
        numbers = np.array([0, 1, 2, largest], largest.dtype)[ENVIRONMENT]
        np.savez("huge.npz", logits=Z, y=Y, environment=numbers)
        same(fitted("huge.npz"), expected)


def test_environments_of_test_rows_are_not_looked_at(files):
    fitted("all.npz")
    shifted = DRAWN.shifted
    np.savez("test.npz", logits=shifted.logits, y=shifted.y, environment=np.full(400, 3))
    words = ["evaluate", "test.npz", "--ood", "test-ood.npz", "--bootstrap", "0"]
    assert run([*words, "--with", "window.json"]) == 0


def test_without_environments_it_says_what_it_did(files, capsys):
    fitted("val.npz")
    assert "there are no domains" in capsys.readouterr().err
    assert run(["inspect", "window.json"]) == 0
    assert "there were no domains" in " ".join(capsys.readouterr().out.split())


def test_a_method_that_reads_none(files, capsys):
    words = ["fit", "--method", "ts", "-o", "ts.json", "--logits"]
    assert run([*words, "val.npz", "--environments", "environments.npy"]) == 2
    assert "ts does not read environments. Leave out --environments" in capsys.readouterr().err
    assert run([*words, "all.npz"]) == 0
    assert "ts does not read the environments of all.npz" in capsys.readouterr().err
    assert load("ts.json").temperature_ == TemperatureScaling().fit(Z, Y).temperature_


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(1200, int), "environment 0, the clean one, must have labeled rows"),
        (np.zeros(7, int), "environment must have shape (1200,), got (7,)"),
        (np.full(1200, 0.5), "environment must be integers"),
    ],
)
def test_wrong_environments(files, capsys, values, message):
    np.save("wrong.npy", values)
    words = ["val.npz", "--environments", "wrong.npy", "-o", "c.json"]
    assert run(["fit", "--method", "window", *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def write_suite(folder):
    writer = SuiteWriter(
        folder, network={}, data={}, seed=0, versions={}, n_classes=10,
        class_names=[str(k) for k in range(10)],
    )  # fmt: skip
    for number in range(4):
        mine = ENVIRONMENT == number
        shift = {"shift": "covariate", "corruption": "blur", "severity": number}
        about = shift if number else {"shift": "none"}
        writer.add(f"tune-{number}", Z[mine], Y[mine], role="tune", **about)
    writer.add("svhn-tune", STRANGERS, np.full(80, -1), role="tune", shift="semantic")
    writer.finish(list(writer.names))
    return Suite.open(folder)


def test_fit_on_a_suite(files, capsys):
    suite = write_suite(files / "suite")
    rows = environments(suite)
    known = rows.y >= 0
    domain = rows.environment[known]
    expected = WindowScaling().fit(rows.logits[known], rows.y[known], domain=domain)
    same(fitted("--suite", "suite"), expected)
    assert run(["fit", "--method", "ts", "--suite", "suite", "-o", "ts.json"]) == 0
    clean = suite.split("tune-0")
    expected_ts = TemperatureScaling().fit(clean.logits, clean.y)
    assert load("ts.json").temperature_ == expected_ts.temperature_
    assert run(["fit", "--method", "energy", "--suite", "suite", "-o", "energy.json"]) == 0
    assert load("energy.json").fit_info_.n_ood == 80


def test_one_source_of_rows(files, capsys):
    assert run(["fit", "--method", "ts", "-o", "ts.json"]) == 2
    assert "give ROWS" in capsys.readouterr().err
    assert run(["fit", "--suite", "s", "val.npz", "-o", "ts.json"]) == 2
    assert "--suite brings all rows" in capsys.readouterr().err


def test_apply_adapts_to_windows(files, capsys):
    calibrator = fitted("all.npz")
    z = DRAWN.shifted.logits
    capsys.readouterr()
    assert run(["apply", "window.json", "test.npz", "-o", "all.npz"]) == 0
    assert "note: all rows are one window" in capsys.readouterr().err
    assert run(["apply", "window.json", "test.npz", "--window", "150", "-o", "some.npz"]) == 0
    assert "note:" not in capsys.readouterr().err
    parts = [calibrator.predict_proba(z[i : i + 150]) for i in range(0, len(z), 150)]
    with np.load("all.npz") as one, np.load("some.npz") as some:
        np.testing.assert_allclose(one["proba"], calibrator.predict_proba(z), atol=1e-6)
        np.testing.assert_allclose(one["confidence"], calibrator.confidence(z), atol=1e-6)
        np.testing.assert_allclose(some["proba"], np.concatenate(parts), atol=1e-6)
        assert not np.allclose(one["proba"], some["proba"], atol=1e-4)


def test_apply_in_many_windows_warns_once(files, capsys):
    assert run(["fit", "val.npz", "--method", "match+cot", "-o", "match.json"]) == 0
    z = DRAWN.shifted.logits
    one = z[z.argmax(axis=1) == 0][:20]
    np.savez("windows.npz", logits=np.concatenate([one, z[:20], one, one[:5]]))
    capsys.readouterr()
    assert run(["apply", "match.json", "windows.npz", "--window", "20", "-o", "p.npz"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        "warning: match+cot: with fewer than 512 rows others do better, such as window; there is"
        " a window of 5 rows."
    )
    assert said[1].startswith("warning: match+cot: in 3 of 4 windows the predicted classes differ")
    assert len([line for line in said if "predicted classes differ" in line]) == 1
    calibrator = load_old("match.json")
    with np.load("p.npz") as found, warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        last = calibrator.predict_proba(one[:5], context=calibrator.context(one[:5]))
        np.testing.assert_array_equal(found["proba"][60:], last)


def evaluated(capsys, *words):
    assert run([*words, "--bootstrap", "0", "--csv", "-"]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    return {(row["method"], row["metric"]): float(row["value"]) for row in rows}


def test_evaluate_in_a_window(files, capsys):
    calibrator = fitted("all.npz")
    words = ["evaluate", "test.npz", "--ood", "test-ood.npz", "--with", "window.json"]
    found = evaluated(capsys, *words, "--window", "all")
    parts = [DRAWN.shifted.logits, DRAWN.ood.logits]
    proba = np.concatenate([calibrator.predict_proba(z) for z in parts])
    y = np.concatenate([DRAWN.shifted.y, DRAWN.ood.y])
    pred = np.concatenate(parts).argmax(1)
    expected = evaluate(y, proba, pred=pred, n_boot=0)
    for metric in ("ece", "nll", "ood_mean_confidence"):
        assert found["window", metric] == pytest.approx(expected[metric], abs=1e-6)
    both = np.concatenate(parts)  # as one window, or the windows would be told apart
    common = evaluate(y, calibrator.predict_proba(both), n_boot=0)
    for metric in ("ood_auroc", "ood_aupr_in", "ood_aupr_out", "ood_fpr95"):
        assert found["window", metric] == pytest.approx(common[metric], abs=1e-6)
    assert abs(common["ood_auroc"] - expected["ood_auroc"]) > 1e-3
    alone = evaluated(capsys, *words)
    assert alone["window", "ece"] != found["window", "ece"]
    assert alone["uncalibrated", "ece"] == found["uncalibrated", "ece"]


def test_window_of_a_method_that_reads_rows_alone(files, capsys):
    assert run(["fit", "--method", "ts", "val.npz", "-o", "ts.json"]) == 0
    capsys.readouterr()
    assert run(["apply", "ts.json", "test.npz", "--window", "all", "-o", "p.npz"]) == 2
    assert "--window is for window; ts reads each row alone" in capsys.readouterr().err
    assert run(["evaluate", "test.npz", "--with", "ts.json", "--window", "all"]) == 2
    assert "--window is for window" in capsys.readouterr().err


def test_shards_are_one_window(files, capsys):
    fitted("all.npz")
    (files / "shards").mkdir()
    z, y = DRAWN.shifted.logits, DRAWN.shifted.y
    for i in range(4):
        np.savez(f"shards/{i}.npz", logits=z[100 * i : 100 * (i + 1)], y=y[100 * i : 100 * (i + 1)])
    assert run(["apply", "window.json", "shards", "-o", "out"]) == 0
    found = np.concatenate([np.load(path)["proba"] for path in sorted(files.glob("out/*.npz"))])
    np.testing.assert_allclose(found, load("window.json").predict_proba(z), atol=1e-6)
    words = ["evaluate", "--with", "window.json"]
    one = evaluated(capsys, *words, "shards", "--window", "all")
    assert one["window", "ece"] == pytest.approx(
        evaluated(capsys, *words, "test.npz")["window", "ece"], abs=1e-6
    )
