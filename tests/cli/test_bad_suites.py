"""`wildcal compare` and `wildcal reproduce` on suites with something missing or wrong."""

import csv
import io

import numpy as np
import pytest

from wildcal.cli.main import run
from wildcal._old.io.suite import Suite, SuiteWriter

COMPARE = ["--methods", "ts,energy", "--bootstrap", "0"]


def write_suite(folder, leave_out=()):
    rng = np.random.default_rng(0)
    writer = SuiteWriter(
        folder,
        network={"name": "vgg11-half"},
        data={"name": "cifar10"},
        seed=0,
        versions={},
        n_classes=3,
        class_names="abc",
    )

    def add(name, n, noise=1.0, **words):
        y = rng.integers(0, 3, n)
        z = (5 * np.eye(3)[y] + 2 * noise * rng.normal(size=(n, 3))).astype(np.float32)
        y = np.full(n, -1) if words["shift"] == "semantic" else y
        if name not in leave_out:
            writer.add(name, z, y, **words)

    add("validation", 200, role="tune", shift="none")
    add("svhn-tune", 40, 2.0, role="tune", shift="semantic")
    add("textures-test", 60, 2.0, role="test", shift="semantic")
    add("test", 150, role="test", shift="none")
    for level in range(1, 6):
        place = {"shift": "covariate", "corruption": "fog", "severity": level}
        add(f"fog-{level}", 150, 1 + level / 4, role="test", **place)
    writer.finish(list(writer.names))


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A shell in a folder with a good suite, one with a lost file, and half a packed one."""
    for name in ("good", "lost"):
        write_suite(tmp_path / name)
    (tmp_path / "lost" / "fog-2.labels.npy").unlink()
    Suite.open(tmp_path / "good").pack(tmp_path / "half.npz")
    raw = (tmp_path / "half.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(raw[: len(raw) // 2])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


LOST = [
    "warning: lost: fog-2 was left out:"
    " cannot read fog-2.labels.npy of lost: the file is not there.",
    "warning: lost: the average over severities was left out: there is no fog at severity 2.",
]
HALF = "half.npz is not a suite: neither a folder nor a whole .npz."


def test_compare_names_what_is_missing_and_shows_the_rest(shell, capsys):
    assert run(["compare", "lost", *COMPARE, "--csv", "-"]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == LOST
    splits = {row["split"] for row in csv.DictReader(io.StringIO(out))}
    assert splits == {"test", "textures-test", *(f"fog-{level}" for level in (1, 3, 4, 5))}


def test_compare_goes_on_to_the_next_suite(shell, capsys):
    assert run(["suite", "compare", "half.npz", "lost", "good", *COMPARE, "--csv", "-"]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [f"warning: half was left out: {HALF}", *LOST]
    assert {row["suite"] for row in csv.DictReader(io.StringIO(out))} == {"lost", "good"}


def test_compare_with_two_suites_of_which_one_is_cut(shell, capsys):
    assert run(["suite", "compare", "good", "half.npz", *COMPARE, "--csv", "-"]) == 0
    assert capsys.readouterr().err == f"warning: half was left out: {HALF}\n"


def test_compare_where_no_suite_is_left(shell, capsys):
    assert run(["compare", "half.npz", *COMPARE]) == 1
    assert capsys.readouterr().err == f"error: {HALF}\n"
    (shell / "lost" / "validation.logits.npy").unlink()
    assert run(["compare", "lost", *COMPARE]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "warning: lost was left out: lost has no clean rows to tune on (role tune, shift none).",
        "warning: lost: validation was left out:"
        " cannot read validation.logits.npy of lost: the file is not there.",
        LOST[0],
        "error: no suite could be used.",
    ]


def test_compare_without_out_of_distribution_rows(shell, capsys):
    write_suite(shell / "closed", leave_out=("svhn-tune",))
    assert run(["compare", "closed", *COMPARE]) == 0
    out, err = capsys.readouterr()
    assert err == (
        "warning: closed: out-of-distribution tuning was left out:"
        " the suite has no such rows; energy had labels alone.\n"
    )
    assert [line.split()[0] for line in out.splitlines() if "200 labels" in line] != []


def test_compare_with_a_changed_tuning_set(shell, capsys):
    path = shell / "good" / "svhn-tune.logits.npy"
    np.save(path, np.load(path) + 1)
    assert run(["compare", "good", *COMPARE, "--csv", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == (
        "warning: energy failed on good: good: split svhn-tune was changed after it was written"
        " (its SHA-256 does not match). Extract it again, or restore the file.\n"
    )
    assert {row["method"] for row in csv.DictReader(io.StringIO(out))} == {"identity", "ts"}


def test_reproduce_names_what_is_missing_and_makes_the_rest(shell, capsys):
    words = ["reproduce", "table1", "fig3", "--suites", "half.npz", "lost", "good", "-o", "out"]
    assert run([*words, "--bootstrap", "0", "--format", "csv", "--figures", "none"]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0] == f"warning: left out: {HALF}"
    assert [line for line in err.splitlines() if line.startswith("warning: lost:")] == LOST
    assert "warning: lost is left out: it has no test rows of severity or set 2" in err  # fig3
    assert out.splitlines()[0] == "table1: out/table1.csv"
    with (shell / "out" / "table1.csv").open(newline="") as file:
        assert "good" in {row["suite"] for row in csv.DictReader(file)}


def test_reproduce_where_nothing_can_be_tuned(shell, capsys):
    write_suite(shell / "untuned", leave_out=("validation",))
    words = ["reproduce", "all", "--suites", "untuned", "good", "-o", "out", "--bootstrap", "0"]
    assert run([*words, "--format", "csv", "--figures", "none"]) == 0
    out, err = capsys.readouterr()
    reason = "untuned has no clean rows to tune on (role tune, shift none)."
    assert f"warning: untuned was left out: {reason}" in err.splitlines()
    assert "table1: out/table1.csv" in out.splitlines()
