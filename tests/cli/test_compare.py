"""`wildcal compare` and `wildcal methods`."""

import csv
import io
import json

import numpy as np
import pytest

from wildcal import CALIBRATORS, get_calibrator
from wildcal._old.calibrators import PAPER_METHODS, WINDOW_METHODS
from wildcal.cli.main import run


def test_the_paper_in_one_table(folder, capsys):
    line = "compare val.npz test.npz --ood ood.npz --test-ood strange.npz --bootstrap 50"
    assert run(line.split()) == 0
    out = capsys.readouterr().out
    rows = [row.split() for row in out.splitlines()]
    names = [row[0] for row in rows if row and row[0] in CALIBRATORS]
    assert sorted(names) == sorted(PAPER_METHODS)
    assert "800 labels, 80 OOD rows" in out
    assert "no (" in out  # the isotonic ones say how often they change the class
    assert "100 out-of-distribution rows" in out
    assert "OOD confidence" in out


@pytest.mark.parametrize(("width", "cut"), [("100", True), ("250", False)])
def test_a_narrow_screen_gets_fewer_columns(folder, capsys, monkeypatch, width, cut):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes stdout for a terminal
    monkeypatch.setenv("COLUMNS", width)
    assert run("compare val.npz test.npz --bootstrap 0".split()) == 0
    out = capsys.readouterr().out
    assert ("Left out to fit the screen: Brier score" in out) == cut
    assert ("Brier" in out.splitlines()[2]) != cut


def test_formats_agree_and_order_is_by_ece(folder, capsys):
    words = "compare val.npz test.npz --methods ts,energy,histogram --bootstrap 20".split()
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["methods"]) == {"identity", "ts", "energy", "histogram"}
    evaluations = [m["evaluation"]["metrics"] for m in document["methods"].values()]
    eces = [metrics["ece"]["value"] for metrics in evaluations]
    assert eces == sorted(eces)
    assert run([*words, "--csv", "-"]) == 0
    for row in csv.DictReader(io.StringIO(capsys.readouterr().out)):
        entry = document["methods"][row["method"]]
        assert float(row["value"]) == entry["evaluation"]["metrics"][row["metric"]]["value"]
        assert row["knew"] == entry["knew"]


def test_fallbacks_are_told(folder, capsys, drawn):
    z = drawn.tuning.logits.astype(float)
    z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
    np.savez("normal.npz", logits=z, y=np.maximum(drawn.tuning.y, 0))
    assert run("compare normal.npz test.npz --methods ts,energy --bootstrap 0".split()) == 0
    out, err = capsys.readouterr()
    assert "warning: energy: the logits are normalized (log-softmax)" in err
    lines = {x.split()[0]: x.split() for x in out.splitlines() if x.split()[:1]}
    assert "best" in lines["energy"]
    assert "best" in lines["ts"]  # the same map by now
    assert any(word.startswith("+") for word in lines["identity"])


WRONG = {
    "unknown method": (
        "compare val.npz test.npz --methods ts,energi", 2,
        "Error: there is no method 'energi'; did you mean 'energy'? `wildcal methods` lists them.",
    ),
    "of suites": (
        "compare val.npz test.npz --methods ts-all",
        2,
        "Error: ts-all: compared on suites only, with `wildcal suite compare`.",
    ),
    "no method": ("compare val.npz test.npz --methods ,", 2, "no method was given"),
    "no labels": ("compare ood.npz test.npz", 1, "error: ood.npz has no labels."),
    "both formats": ("compare val.npz test.npz --json --csv -", 2, "exclude each other"),
    "missing": ("compare val.npz gone.npz", 1, "error: gone.npz does not exist."),
}  # fmt: skip


@pytest.mark.parametrize(("line", "code", "message"), WRONG.values(), ids=WRONG)
def test_wrong_use(folder, capsys, line, code, message):
    assert run(line.split()) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_methods_lists_everything(capsys):
    assert run(["methods"]) == 0
    table = capsys.readouterr().out
    assert run(["methods", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {*CALIBRATORS, *WINDOW_METHODS}
    for name in CALIBRATORS:
        calibrator = get_calibrator(name)
        assert calibrator.title in table
        assert calibrator.reference in table
        assert document[name]["preserves_accuracy"] == calibrator.preserves_accuracy
    assert document["window"]["needs"] == "labels of environments, a test window"
    assert document["energy"]["needs"] == "labels, OOD rows if any"
    assert [name for name, entry in document.items() if entry["in_the_paper"]]


def test_identity_is_what_the_file_says(folder, capsys):
    """Logits are made of probabilities with their zeros lifted, which is not what was said."""
    rng = np.random.default_rng(0)
    for name in ("val", "test"):
        votes = rng.multinomial(5, rng.dirichlet(np.full(10, 0.1), 300)) / 5
        y = [rng.choice(10, p=row) for row in votes]
        np.savez(f"{name}-votes.npz", proba=votes, y=y)
    options = "--input proba --bootstrap 50 --json -q"
    files = "val-votes.npz test-votes.npz"
    assert run(f"compare {files} --methods identity,ts {options}".split()) == 0
    compared = json.loads(capsys.readouterr().out)["methods"]
    assert run(f"evaluate test-votes.npz {options}".split()) == 0
    alone = json.loads(capsys.readouterr().out)["as given"]
    assert compared["identity"]["evaluation"]["metrics"] == alone["metrics"]
    assert compared["ts"]["evaluation"]["metrics"] != alone["metrics"]
