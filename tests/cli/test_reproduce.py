"""`wildcal reproduce`: files, answers, and one line for what can go wrong."""

import re
import sys

import numpy as np
import pytest

from wildcal._old import suites as shipped
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.report import ARTIFACTS
from wildcal._old.testing import make_suite
from wildcal.cli.main import run


def write_suite(folder, network="vgg11-half", seed=0):
    drawn = make_suite(seed, n_tuning=300, n_ood_tuning=120, n_test=200)
    writer = SuiteWriter(
        folder,
        network={"name": network},
        data={"name": "cifar10"},
        seed=seed,
        versions={},
        n_classes=10,
        class_names=[str(k) for k in range(10)],
    )
    known = drawn.tuning.y >= 0
    validation = drawn.tuning.logits[known], drawn.tuning.y[known]
    writer.add("validation", *validation, role="tune", shift="none")
    for name in ("svhn", "textures"):
        ood = drawn.tuning.logits[~known], drawn.tuning.y[~known]
        writer.add(f"{name}-tune", *ood, role="tune", shift="semantic")
        writer.add(f"{name}-test", *drawn.ood, role="test", shift="semantic")
    writer.add("test", *drawn.clean, role="test", shift="none")
    for level in range(1, 6):
        place = {"shift": "covariate", "corruption": "fog", "severity": level}
        logits = drawn.clean.logits * np.float32(1 - 0.15 * level)
        writer.add(f"fog-{level}", logits, drawn.clean.y, role="test", **place)
    writer.finish(list(writer.names))


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A shell in a folder with two suites."""
    write_suite(tmp_path / "one")
    write_suite(tmp_path / "two", "wrn-16-2", 1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all(needs, shell, capsys):
    needs("matplotlib")
    words = ["reproduce", "all", "--suites", "one", "-o", "out/deep", "--bootstrap", "5"]
    assert run([*words, "--quiet"]) == 0
    out, err = capsys.readouterr()
    answered = [line.split()[2] for line in err.splitlines()]
    assert answered == ["table2", "table6", "table7", "fig7"]
    assert all(line.startswith("not made: ") for line in err.splitlines())
    made = [line.split(":")[0] for line in out.splitlines()]
    assert made == [name for name in ARTIFACTS if name not in answered]
    expected = {f"{n}.{e}" for n in made if n[0] == "t" for e in ("md", "csv", "tex")}
    expected |= {f"{n}.{e}" for n in made if n[0] == "f" for e in ("md", "csv", "png")}
    assert {path.name for path in (shell / "out" / "deep").iterdir()} == expected


def test_one_table(shell, capsys):
    words = ["reproduce", "table1", "--suites", "one", "two", "-o", "out", "--bootstrap", "0"]
    assert run([*words, "--format", "md", "--paper", "-q"]) == 0
    assert capsys.readouterr() == ("table1: out/table1.md\n", "")
    text = (shell / "out" / "table1.md").read_text("utf-8")
    networks = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| CIFAR")]
    assert networks == ["vgg11-half", "VGG19 (paper)", "wrn-16-2", "WideResNet40 (paper)"]
    assert "Energy: 300 labels, 100 rows of svhn" in text


@pytest.mark.parametrize("artifact", ["fig1", "table3", "all"])
def test_the_log_ends_with_all_rows_measured(shell, capsys, artifact):
    words = ["reproduce", artifact, "--suites", "one", "-o", "out", "--figures", "none"]
    assert run([*words, "--bootstrap", "5"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "resampling" in line]
    done, total = re.search(r"; ([\d,]+) of ([\d,]+) rows", lines[-1]).groups()
    assert done == total


def test_a_log_without_a_terminal_tells_how_far_it_is(shell, capsys):
    words = ["reproduce", "table1", "--suites", "one", "two", "-o", "out", "--format", "csv"]
    assert run([*words, "--bootstrap", "5"]) == 0
    # Clean rows, five severities, and Textures, which nothing was tuned with.
    per_suite = 6 * 200 + len(make_suite(0, n_tuning=300, n_ood_tuning=120, n_test=200).ood.y)
    assert capsys.readouterr().err.splitlines() == [
        f"{name}: {step}; {done * per_suite:,} of {2 * per_suite:,} rows measured."
        for name, step, done in (
            ("one", "fitting", 0),
            ("one", "resampling", 1),
            ("two", "fitting", 1),
            ("two", "resampling", 2),
        )
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["--suites", "one", "two", "table1", "-o", "out"],
        ["table1", "--suites", "one", "--suites", "two", "-o", "out"],
        ["-o", "out", "table1", "--suites", "one", "two", "one"],
        ["--suites=one", "--suites=two", "table1", "-o", "out"],
    ],
)
def test_ways_to_name_suites(shell, capsys, words):
    assert run(["reproduce", *words, "--bootstrap", "0", "--format", "csv"]) == 0
    lines = (shell / "out" / "table1.csv").read_text("utf-8").splitlines()[1:]
    assert {line.split(",")[0] for line in lines} == {"one", "two"}
    assert len(lines) == 16


def test_same_files_each_time(shell, capsys):
    for folder in ("a", "b"):
        words = ["reproduce", "table1", "table8", "fig4", "--suites", "one", "-o", folder]
        assert run([*words, "--bootstrap", "5", "--figures", "none"]) == 0
    files = sorted(path.name for path in (shell / "a").iterdir())
    assert len(files) == 8
    for name in files:
        assert (shell / "a" / name).read_bytes() == (shell / "b" / name).read_bytes()


def test_a_bad_suite_is_named_and_the_rest_made(shell, capsys):
    (shell / "broken.npz").write_bytes(b"nothing")
    words = ["reproduce", "table1", "--suites", "broken.npz", "one", "-o", "out"]
    assert run([*words, "--bootstrap", "0", "--format", "md", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert out == "table1: out/table1.md\n"
    assert err == (
        "warning: left out: broken.npz is not a suite: neither a folder nor a whole .npz.\n"
    )


def test_only_bad_suites(shell, capsys):
    assert run(["reproduce", "table1", "--suites", "nowhere", "-o", "out"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: none of the suites could be opened; `wildcal suite show` tells more."
    )
    assert not (shell / "out").exists()


def test_shipped_suites_are_the_default(shell, monkeypatch, capsys):
    (shell / "package").mkdir()
    Suite.open("one").pack(shell / "package" / "cifar10-one.npz")
    monkeypatch.setattr(shipped, "_folder", lambda: shell / "package")
    words = ["reproduce", "table9", "-o", "out", "--bootstrap", "0", "--format", "csv"]
    assert run(words) == 0
    assert "\ncifar10-one,CIFAR-10,vgg11-half,Energy w/o," in (shell / "out/table9.csv").read_text()


def test_no_shipped_suites(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shipped, "_folder", lambda: tmp_path)
    assert run(["reproduce", "table1", "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == (
        "error: no suites are installed; give your own, made by `wildcal extract`, or install those"
        ' that come with wildcal: pip install "wildcal[suites]"\n'
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table10", "--suites", "one", "-o", "out"], "there is no artifact 'table10'; choose"),
        (["table1", "--suites", "one"], "Missing option '-o'"),
        (["table1", "-o", "out", "--format", "html"], "there is no form html; choose from md"),
        (["fig1", "-o", "out", "--figures", "gif"], "there is no form gif; choose from png"),
        (["table1", "-o", "out", "--format", ","], "there is no form (none given)"),
        (["table1", "-o", "out", "--bootstrap", "1"], "give 0 for no intervals, or at least 2"),
    ],
)
def test_wrong_usage(shell, capsys, words, message):
    assert run(["reproduce", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (shell / "out").exists()


def test_without_matplotlib(shell, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "wildcal._old.report.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["reproduce", "fig4", "--suites", "one", "-o", "out", "--bootstrap", "0"]
    assert run(words) == 1
    assert capsys.readouterr().err == (
        "error: wildcal._old.report.plots needs matplotlib."
        ' Install it with: pip install "wildcal[report]"\n'
    )
    assert run([*words, "--figures", "none"]) == 0
    assert sorted(path.name for path in (shell / "out").iterdir()) == ["fig4.csv", "fig4.md"]


def test_output_that_is_a_file(shell, capsys):
    (shell / "out").touch()
    assert run(["reproduce", "table1", "--suites", "one", "-o", "out"]) == 1
    assert capsys.readouterr().err == (
        "error: cannot write to out: it is not a folder; give another -o.\n"
    )


def test_help_ends_with_an_example(capsys):
    assert run(["reproduce", "--help"]) == 0
    assert "Example:\n    wildcal reproduce table1 fig4" in capsys.readouterr().out
