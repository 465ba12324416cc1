"""The command: whole outputs, exit codes, and one line for everything that can go wrong."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from wildcal import EnergyScaling, load
from wildcal._old.calibrators.temperature import TemperatureScaling as OldTemperatureScaling
from wildcal.cli.main import cli, run
from wildcal._old.cli.output import print_table, progress_bar
from wildcal._old.core.labels import ClassNames
from wildcal._old.io import About, load_with_about, save


@pytest.fixture
def energy(folder):
    assert run("fit val.npz --method energy --ood ood.npz -o energy.json".split()) == 0
    return folder / "energy.json"


def test_fit_says_what_it_did(folder, capsys, drawn):
    assert run("fit --method energy val.npz --ood ood.npz -o energy.json".split()) == 0
    out, err = capsys.readouterr()
    assert out == ""
    fitted = EnergyScaling().fit(*drawn.tuning)
    assert err == (
        "Fitted energy-based instance-wise scaling on 800 rows and 80 out-of-distribution rows of"
        f" 10 classes: mse {fitted.fit_info_.loss_before:.5g} -> {fitted.fit_info_.loss_after:.5g}"
        f" in {fitted.fit_info_.n_iter} iterations.\nWrote energy.json.\n"
    )
    assert load(folder / "energy.json").temperature_ == fitted.temperature_


@pytest.mark.parametrize(
    ("terminal", "kind"), [(False, "xterm"), (True, "dumb"), (True, "unknown")]
)
def test_no_bar_where_it_cannot_be_drawn(monkeypatch, capsys, terminal, kind):
    """There the bars of rich, of the oldest as of the newest, leave a blank line."""
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with progress_bar("walking", 2) as bar:
        bar.advance(bar.task_ids[0])
    assert capsys.readouterr() == ("", "")


def test_a_quiet_command_warns_and_says_nothing_else(folder, capsys, drawn):
    assert run("fit val.npz --method ts -o ts.json --quiet".split()) == 0
    assert capsys.readouterr() == ("", "")
    assert run("apply ts.json test.npz -o proba.npz -q".split()) == 0
    assert capsys.readouterr() == ("", "")
    z = drawn.shifted.logits[:60]
    np.savez(folder / "right.npz", logits=z, y=z.argmax(1))
    assert run("fit right.npz --method ts -o right.json --quiet".split()) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert all(line.startswith("warning: ") for line in err.splitlines())


@pytest.mark.parametrize("name", sorted(cli.list_commands(None)))
def test_every_command_can_be_quiet(name):
    command = cli.get_command(click.Context(cli), name)
    leaves = command.commands.values() if isinstance(command, click.Group) else [command]
    for leaf in leaves:
        assert "--quiet" in {flag for option in leaf.params for flag in option.opts}, leaf.name


@pytest.mark.parametrize("bounds", ["[0.5,2]", "(0.5, 2.0)"])
@pytest.mark.parametrize("ood", ["true", "True"])
def test_fit_takes_options_as_json_and_as_inspect_prints_them(folder, capsys, bounds, ood):
    line = ["fit", "--method", "ts", "val.npz", "-o", "ts.json"]
    settings = ["loss=mse", f"bounds={bounds}", f"ood={ood}"]
    assert run([*line, *(word for setting in settings for word in ("--set", setting))]) == 0
    fitted = load(folder / "ts.json")
    assert (fitted.loss, fitted.bounds, fitted.ood) == ("mse", (0.5, 2), True)
    assert run(["inspect", "ts.json"]) == 0
    assert f"bounds = {fitted.bounds}, ood = True" in capsys.readouterr().out


def test_apply(energy, folder, capsys, drawn):
    assert run("apply energy.json test.npz -o proba.npz".split()) == 0
    fitted, z = load(energy), drawn.shifted.logits
    with np.load(folder / "proba.npz") as got:
        np.testing.assert_allclose(got["proba"], fitted.predict_proba(z), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(got["confidence"], fitted.confidence(z), rtol=1e-6)
        np.testing.assert_allclose(got["temperature"], fitted.temperatures(z), rtol=1e-6)
        np.testing.assert_array_equal(got["pred"], z.argmax(axis=1))
        np.testing.assert_array_equal(got["y"], drawn.shifted.y)
    assert "Wrote 500 rows to proba.npz; mean confidence" in capsys.readouterr().err
    assert run("apply energy.json test.npz --confidence-only -o c.csv".split()) == 0
    assert (folder / "c.csv").read_text().startswith("confidence,temperature,pred,y\n")


def test_evaluate_formats_agree(energy, capsys):
    words = "evaluate test.npz --ood ood.npz --with energy.json --bootstrap 50".split()
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["uncalibrated", "energy"]
    assert document["energy"]["n_rows"] == 500
    assert document["energy"]["n_ood"] == 80
    assert run([*words, "--csv", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    for row in rows:
        expected = document[row["method"]]["metrics"][row["metric"]]
        assert float(row["value"]) == expected["value"]
        assert (row["low"] == "") == (expected["low"] is None)
    assert run(words) == 0
    table = capsys.readouterr().out
    for method in ("uncalibrated", "energy"):
        assert method in table
        assert f"{100 * document[method]['metrics']['ece']['value']:.2f} (" in table
        assert f"{100 * document[method]['metrics']['noise_floor']['value']:.2f}" in table
    assert "Low to high: 95 % bootstrap interval" in table


def test_evaluate_says_which_methods_may_change_the_class(folder, capsys):
    for method in ("ts", "vector"):
        assert run(f"fit --method {method} val.npz -o {method}.json".split()) == 0
    words = "evaluate test.npz --bootstrap 0 --with ts.json --with vector.json".split()
    assert run(words) == 0
    row = next(x for x in capsys.readouterr().out.splitlines() if "class always kept" in x)
    assert row.split()[-3:] == ["yes", "yes", "no"]
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["preserves_accuracy"] for entry in document.values()] == [True, True, False]


def test_evaluate_without_calibrators_shows_the_network_itself(folder, capsys):
    assert run("evaluate test.npz --bootstrap 0".split()) == 0
    out = capsys.readouterr().out
    assert "uncalibrated" in out
    assert "500 rows, 15 bins" in out


def test_inspect_speaks_in_words(energy, capsys):
    capsys.readouterr()
    assert run("inspect energy.json".split()) == 0
    out = capsys.readouterr().out
    fitted = load(energy)
    assert out.startswith("Energy-based instance-wise scaling (energy), ")
    assert f"temperature_: {fitted.temperature_:.4g}" in out
    assert "It never changes the predicted class." in out
    assert run("inspect energy.json --json".split()) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(energy.read_text())


def test_names_from_a_file_do_nothing_to_the_terminal(folder, energy, capsys):
    """Neither what is shown of a file nor an error moves the cursor, or looks like a line."""
    names = tuple(f"{k}\x1b[2J\x1b]0;owned\x07\nnew\u202e" for k in range(load(energy).n_classes_))
    about = About(classes=ClassNames(names), notes={"net\x1b[1m\r": "a\x9b31m\nb"})
    save(load_with_about(energy)[0], "named.json", about)
    capsys.readouterr()
    assert run("inspect named.json".split()) == 0
    out = capsys.readouterr().out
    assert "Classes: 0?[2J?]0;owned??new?, 1?[2J" in out
    assert out.endswith("net?[1m?: a?31m?b\n")
    assert run(["inspect", "\x1b[2Jabsent.json"]) == 1
    print_table(["a\x1b[2J"], [["b\x1b[2J"]], title="c\x1b[2J", caption="d\x1b[2J\ne")
    out, err = capsys.readouterr()
    assert err == "error: ?[2Jabsent.json does not exist.\n"
    assert all(f"{letter}?[2J" in out for letter in "abcd")
    assert "\x1b" not in out


WRONG = {
    "missing file": ("fit nope.npz -o x.json", 1, "error: nope.npz does not exist."),
    "no labels": (
        "fit ood.npz -o x.json",
        1,
        "error: ood.npz has no labels. Name their column with --label-column, or give a file of"
        " labels with --labels.",
    ),
    "probabilities": (
        "fit proba.npz -o x.json",
        1,
        "error: proba.npz: every row lies in [0, 1] and sums to 1, rounded to 1 decimals: these are"
        " probabilities. Pass --input proba, or better the scores before the softmax.",
    ),
    "NaN": (
        "evaluate nan.npz",
        1,
        "error: nan.npz: scores must be numbers, but row 3 is empty (NaN) in column 2. Drop that"
        " row or mend the model.",
    ),
    "ood for ts": (
        "fit --method ts val.npz --ood ood.npz -o x.json",
        2,
        "Error: ts does not use out-of-distribution rows. Leave out --ood, or use one of: energy,"
        " energy-linear.",
    ),
    "unknown option": (
        "fit --method energy --set bax=paper val.npz -o x.json",
        2,
        "NAME of theta_bounds, bounds, ood_weight for energy, got 'bax=paper'.",
    ),
    "bad option value": (
        "fit --method energy --set theta_bounds=huge val.npz -o x.json",
        1,
        "error: theta_bounds must be one of 'safe', 'paper', 'none', got 'huge'.",
    ),
    "unknown method": (
        "fit --method magic val.npz -o x.json",
        2,
        "there is no method 'magic'; `wildcal methods` lists them.",
    ),
    "not a calibrator": (
        "apply val.npz test.npz -o p.npz",
        1,
        "error: val.npz is not a whole JSON file (UnicodeDecodeError); was it cut short?",
    ),
    "missing folder": (
        "fit val.npz -o no/x.json",
        1,
        "error: cannot write no/x.json: the folder no does not exist.",
    ),
    "both formats": (
        "evaluate test.npz --json --csv -",
        2,
        "Error: --json and --csv - exclude each other.",
    ),
    "ood of other width": (
        "evaluate test.npz --ood narrow.npz",
        1,
        "error: narrow.npz must have scores of 10 classes, as the other file, got shape (5, 3).",
    ),
    "one replicate": ("evaluate test.npz --bootstrap 1", 2, "give 0 for no intervals"),
    "bounds that are none": (
        "fit --method ts --set bounds=5 val.npz -o x.json",
        1,
        "error: bounds must be a pair (low, high) with 1e-6 <= low <= high <= 1e6, got 5.",
    ),
    "wrong ending": (
        "fit val.npz -o x.npz",
        2,
        "Error: -o must end in .json, got x.npz.",
    ),
    "own input": (
        "apply energy.json test.npz -o test.npz",
        2,
        "Error: -o test.npz would replace a file that is read. Give another.",
    ),
    "wrong result": (
        "apply energy.json test.npz -o x.pkl",
        1,
        "error: cannot write x.pkl: its ending must be one of .npz, .npy, .csv.",
    ),
    "no command": ("frobnicate", 2, "No such command 'frobnicate'"),
}


@pytest.mark.parametrize(("line", "code", "message"), WRONG.values(), ids=WRONG)
def test_one_line_for_what_went_wrong(folder, capsys, line, code, message, drawn):
    np.savez(folder / "proba.npz", logits=np.full((9, 10), 0.1), y=np.zeros(9, int))
    np.savez(folder / "narrow.npz", logits=np.zeros((5, 3)))
    spoiled = drawn.shifted.logits.copy()
    spoiled[3, 2] = np.nan
    np.savez(folder / "nan.npz", logits=spoiled, y=drawn.shifted.y)
    before = sorted(p.name for p in folder.iterdir())
    assert run(line.split()) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    if code == 1:
        assert err == message + "\n"
    assert sorted(p.name for p in folder.iterdir()) == before  # nothing half-written


def test_warnings_are_one_line_too(folder, capsys, drawn):
    z = drawn.clean.logits
    np.savez("right.npz", logits=z, y=z.argmax(axis=1))
    assert run("fit --method ts right.npz -o x.json".split()) == 0
    err = capsys.readouterr().err
    assert err.startswith("warning: TemperatureScaling: the temperature 0.01 is at its bound.")


def test_debug_shows_the_traceback(folder, capsys):
    assert run("--debug fit nope.npz -o x.json".split()) == 1
    assert "Traceback" in capsys.readouterr().err


CONTEXT = click.Context(cli)
COMMANDS = sorted(
    [name, *inner]
    for name in cli.list_commands(CONTEXT)
    for inner in (
        [],
        *([word] for word in getattr(cli.get_command(CONTEXT, name), "commands", ())),
    )
)


def test_the_list_of_commands_says_what_their_own_help_says():
    for name, later in cli.later.items():
        command = cli.get_command(CONTEXT, name)
        assert command.get_short_help_str(limit=500) == later.help


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(words, capsys):
    assert run([*words, "--help"]) == 0
    assert "Example:" in capsys.readouterr().out


def test_ctrl_c_leaves_no_broken_file(folder, capsys, monkeypatch):
    monkeypatch.setattr(
        "wildcal._old.io.artifact.json.dumps",
        lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    assert run("fit --method ts val.npz -o ts.json".split()) == 130
    assert capsys.readouterr().err.strip() == "interrupted; no unfinished file was left."
    assert not [p for p in folder.iterdir() if "ts.json" in p.name]


def test_installed_command_and_module(folder):
    installed = Path(sys.executable).with_name("wildcal")
    for start in ([sys.executable, "-m", "wildcal"], [str(installed)]):
        done = subprocess.run([*start, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("wildcal, version ")
        done = subprocess.run([*start, "evaluate", "gone.npz"], capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr == "error: gone.npz does not exist.\n"


def test_unsigned_labels_with_ood_rows(folder):
    """The label type of CIFAR and SVHN files cannot hold -1."""
    with np.load(folder / "val.npz") as val:
        np.savez("u8.npz", logits=val["logits"], y=val["y"].astype(np.uint8))
    assert run("fit --method energy u8.npz --ood ood.npz -o a.json".split()) == 0
    assert run("fit --method energy val.npz --ood ood.npz -o b.json".split()) == 0
    assert load("a.json").theta1_ == load("b.json").theta1_


def test_a_defect_is_one_line_too(folder, capsys, monkeypatch):
    monkeypatch.setattr("wildcal._old.cli.fit.save", lambda *_: 1 / 0)
    assert run("fit --method ts val.npz -o ts.json".split()) == 1
    err = capsys.readouterr().err
    assert "error: division by zero (ZeroDivisionError; --debug shows where)" in err
    assert "Traceback" not in err


def test_odd_names_of_calibrators(energy, capsys):
    for name in ("uncalibrated.json", "[red].json"):
        energy.with_name(name).write_bytes(energy.read_bytes())
    words = "evaluate test.npz --bootstrap 0 --with uncalibrated.json --with [red].json".split()
    assert run(words) == 0
    out = capsys.readouterr().out
    header = next(line for line in out.splitlines() if "metric" in line)
    assert header.split() == ["metric", "uncalibrated", "uncalibrated.json", "[red]"]


def test_kill_cleans_up(folder):
    """A fit ended by SIGTERM while it writes leaves no temporary file."""
    code = (
        "import json, os, signal\n"
        "from wildcal.cli.main import main\n"
        "old = json.dump\n"
        "def slow(*a, **k):\n"
        "    old(*a, **k); os.kill(os.getpid(), signal.SIGTERM)\n"
        "json.dump = slow\n"
        "main('fit --method ts val.npz -o ts.json'.split())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 143
    assert done.stderr.strip() == "interrupted; no unfinished file was left."
    names = ["ood.npz", "strange.npz", "test.npz", "val.npz"]
    assert sorted(p.name for p in folder.iterdir()) == names


def test_a_fit_starts_without_scipy(folder):
    """To import its solvers takes longer than all the rest of a small fit."""
    code = (
        "import sys\n"
        "from wildcal.cli.main import run\n"
        "assert run('fit val.npz -q -o auto.json'.split()) == 0\n"
        "assert 'scipy' not in sys.modules\n"
        "assert 'wildcal._old.evaluation.protocol' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_option(folder):
    assert run("--threads 1 evaluate test.npz --bootstrap 0 --json".split()) == 0


def test_a_file_of_version_0_1(folder, capsys, drawn):
    known = drawn.tuning.y >= 0
    old = OldTemperatureScaling().fit(drawn.tuning.logits[known], drawn.tuning.y[known])
    save(old, "old.json")
    assert run("apply old.json test.npz -o p.npz".split()) == 1
    assert capsys.readouterr().err == "error: old.json was written by wildcal 0.1; fit again.\n"
