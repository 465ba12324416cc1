"""`wildcal fit --method context`, and the window of `apply` and `evaluate`."""

import csv
import io
import warnings

import numpy as np
import pytest

from wildcal import ContextScaling, TemperatureScaling
from wildcal.cli.main import run
from wildcal.core.errors import CalibrationWarning
from wildcal.evaluation import environments, evaluate
from wildcal.io import load, read_table
from wildcal.io.suite import Suite, SuiteWriter
from wildcal.testing import make_suite


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
    assert run(["fit", "--method", "context", *words, "-o", "context.json"]) == 0
    return load("context.json")


def same(found, expected):
    for name in (
        "clean_temperature_",
        "bias_",
        "beta_p_",
        "beta_2_",
        "beta_g_",
        "lam_",
        "environments_",
    ):
        assert getattr(found, name) == getattr(expected, name)


def test_environments_in_the_file(files, capsys):
    same(fitted("all.npz"), ContextScaling().fit(Z, Y, environment=ENVIRONMENT))
    assert "on 1,200 rows of 10 classes" in (said := capsys.readouterr().err)
    assert "It used 4 environments." in said
    assert "such as a forest" not in said


def test_environments_in_a_file_of_their_own(files):
    expected = ContextScaling().fit(Z, Y, environment=ENVIRONMENT)
    same(fitted("val.npz", "--environments", "environments.npy"), expected)


def test_environments_in_a_csv(files):
    columns = [*(f"c{k}" for k in range(10)), "y", "environment"]
    rows = np.column_stack([Z.astype(np.float64), Y, ENVIRONMENT])
    np.savetxt("all.csv", rows, "%.9g", ",", header=",".join(columns), comments="")
    table = read_table("all.csv")
    np.testing.assert_array_equal(table.environment, ENVIRONMENT)
    assert table.logits.shape == Z.shape
    expected = ContextScaling().fit(table.logits, Y, environment=ENVIRONMENT)
    same(fitted("all.csv"), expected)
    header = "environment\n"
    (files / "e.csv").write_text(header + "\n".join(map(str, ENVIRONMENT)))
    same(fitted("all.csv", "--environments", "e.csv"), expected)


def test_other_classes_are_one_more_environment(files):
    expected = ContextScaling().fit(
        np.concatenate([Z, STRANGERS]),
        np.concatenate([Y, np.full(80, -1)]),
        environment=np.concatenate([ENVIRONMENT, np.full(80, 4)]),
    )
    same(fitted("all.npz", "--ood", "ood.npz"), expected)


def test_huge_numbers_of_environments(files):
    expected = fitted("all.npz", "--ood", "ood.npz")
    for largest in (np.uint64(2**64 - 1), np.int64(2**63 - 1)):
        numbers = np.array([0, 1, 2, largest], largest.dtype)[ENVIRONMENT]
        np.savez("huge.npz", logits=Z, y=Y, environment=numbers)
        same(fitted("huge.npz", "--ood", "ood.npz"), expected)


def test_environments_of_test_rows_are_not_looked_at(files):
    fitted("all.npz")
    shifted = DRAWN.shifted
    np.savez("test.npz", logits=shifted.logits, y=shifted.y, environment=np.full(400, 3))
    words = ["evaluate", "test.npz", "--ood", "test-ood.npz", "--bootstrap", "0"]
    assert run([*words, "--with", "context.json"]) == 0


def test_without_environments_it_says_what_it_did(files, capsys):
    assert fitted("val.npz").environments_ == 0
    assert "such as a forest" in capsys.readouterr().err
    assert run(["inspect", "context.json"]) == 0
    assert "networks that come with wildcal teach" in " ".join(capsys.readouterr().out.split())


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
    for more in ([], ["--ood", "ood.npz"]):
        assert run(["fit", "--method", "context", *words, *more]) == 1
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
    expected = ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)
    same(fitted("--suite", "suite"), expected)
    assert run(["fit", "--method", "ts", "--suite", "suite", "-o", "ts.json"]) == 0
    clean = suite.split("tune-0")
    expected_ts = TemperatureScaling().fit(clean.logits, clean.y)
    assert load("ts.json").temperature_ == expected_ts.temperature_
    assert run(["fit", "--method", "energy", "--suite", "suite", "-o", "energy.json"]) == 0
    assert load("energy.json").fit_.n_ood == 80


def test_one_source_of_rows(files, capsys):
    assert run(["fit", "--method", "ts", "-o", "ts.json"]) == 2
    assert "give ROWS" in capsys.readouterr().err
    assert run(["fit", "--suite", "s", "val.npz", "-o", "ts.json"]) == 2
    assert "--suite brings all rows" in capsys.readouterr().err


def test_apply_in_a_window(files, capsys):
    calibrator = fitted("all.npz")
    z = DRAWN.shifted.logits
    capsys.readouterr()
    assert run(["apply", "context.json", "test.npz", "-o", "alone.npz"]) == 0
    assert "note: rows are read as clean ones" in capsys.readouterr().err
    assert run(["apply", "context.json", "test.npz", "--window", "all", "-o", "window.npz"]) == 0
    assert "note:" not in capsys.readouterr().err
    around = calibrator.context(z)
    with np.load("alone.npz") as alone, np.load("window.npz") as window:
        np.testing.assert_array_equal(alone["proba"], calibrator.predict_proba(z))
        np.testing.assert_array_equal(window["proba"], calibrator.predict_proba(z, context=around))
        np.testing.assert_array_equal(
            window["confidence"], calibrator.confidence(z, context=around)
        )
        np.testing.assert_array_equal(
            window["temperature"], calibrator.temperature(z, context=around)
        )
        assert not np.array_equal(alone["confidence"], window["confidence"])


def test_apply_in_many_windows_warns_once(files, capsys):
    assert run(["fit", "val.npz", "--method", "match+cot", "-o", "match.json"]) == 0
    z = DRAWN.shifted.logits
    one = z[z.argmax(axis=1) == 0][:20]
    np.savez("windows.npz", logits=np.concatenate([one, z[:20], one, one[:5]]))
    capsys.readouterr()
    assert run(["apply", "match.json", "windows.npz", "--window", "20", "-o", "p.npz"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        "warning: match+cot: with fewer than 512 rows others do better, such as context; there is"
        " a window of 5 rows."
    )
    assert said[1].startswith("warning: match+cot: in 3 of 4 windows the predicted classes differ")
    assert len([line for line in said if "predicted classes differ" in line]) == 1
    calibrator = load("match.json")
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
    words = ["evaluate", "test.npz", "--ood", "test-ood.npz", "--with", "context.json"]
    found = evaluated(capsys, *words, "--window", "all")
    parts = [DRAWN.shifted.logits, DRAWN.ood.logits]
    proba = np.concatenate(
        [calibrator.predict_proba(z, context=calibrator.context(z)) for z in parts]
    )
    y = np.concatenate([DRAWN.shifted.y, DRAWN.ood.y])
    pred = np.concatenate(parts).argmax(1)
    expected = evaluate(y, proba, pred=pred, n_boot=0)
    for metric in ("ece", "nll", "ood_mean_confidence"):
        assert found["context", metric] == pytest.approx(expected[metric], abs=1e-12)
    both = np.concatenate(parts)  # as one window, or the windows would be told apart
    common = evaluate(y, calibrator.predict_proba(both, context=calibrator.context(both)), n_boot=0)
    for metric in ("ood_auroc", "ood_aupr_in", "ood_aupr_out", "ood_fpr95"):
        assert found["context", metric] == pytest.approx(common[metric], abs=1e-6)
    assert abs(common["ood_auroc"] - expected["ood_auroc"]) > 1e-3
    alone = evaluated(capsys, *words)
    assert alone["context", "ece"] != found["context", "ece"]
    assert alone["uncalibrated", "ece"] == found["uncalibrated", "ece"]


def test_window_of_a_method_that_reads_rows_alone(files, capsys):
    assert run(["fit", "--method", "ts", "val.npz", "-o", "ts.json"]) == 0
    capsys.readouterr()
    assert run(["apply", "ts.json", "test.npz", "--window", "all", "-o", "p.npz"]) == 2
    assert "--window is for context; ts reads each row alone" in capsys.readouterr().err
    assert run(["evaluate", "test.npz", "--with", "ts.json", "--window", "all"]) == 2
    assert "--window is for context" in capsys.readouterr().err
