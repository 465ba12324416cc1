"""`wildcal compare` with methods that know shifted tuning rows."""

import numpy as np
import pytest

from wildcal._old.calibrators import CALIBRATORS, PAPER_METHODS
from wildcal._old.cli.choice import choose
from wildcal.cli.main import run
from wildcal._old.io.suite import SuiteWriter


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suites") / "mine"
    rng = np.random.default_rng(0)
    writer = SuiteWriter(
        folder, network={}, data={}, seed=0, versions={}, n_classes=3, class_names="abc"
    )
    for role in ("tune", "test"):
        for level in range(6):
            y = rng.integers(0, 3, 300)
            z = 2.0 * np.eye(3)[y] + (1 + 0.3 * level) * rng.normal(size=(300, 3))
            shift = {"shift": "covariate", "corruption": "blur", "severity": level}
            about = shift if level else {"shift": "none"}
            writer.add(f"{role}-{level}", (3 * z).astype(np.float32), y, role=role, **about)
    writer.finish(list(writer.names))
    return folder


def test_lists_of_names():
    names = [method.name for method in choose("paper, window,ts-all,ts")]
    assert names == [*PAPER_METHODS, "window", "ts-all"]
    assert [method.name for method in choose("all")] == list(CALIBRATORS)


def test_the_table_says_what_was_known(suite, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    words = ["compare", str(suite), "--methods", "ts,window,ts-all", "--bootstrap", "0"]
    assert run(words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "300 labels, 5 shifted sets of 300 labels, unlabeled test window" in text
    assert "were tuned on other rows under blur, which are in the average" in text
    assert run(["compare", str(suite), "--methods", "ts", "--bootstrap", "0"]) == 0
    assert "were tuned on" not in capsys.readouterr().out


def test_names_of_suites_alone(suite, tmp_path, capsys):
    np.savez(tmp_path / "val.npz", logits=np.eye(3), y=[0, 1, 2])
    both = [str(tmp_path / "val.npz")] * 2
    assert run(["compare", *both, "--methods", "ts-all"]) == 2
    assert "ts-all: compared on suites only" in capsys.readouterr().err


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    environment = np.repeat([0, 4, 7], 200)
    y = rng.integers(0, 3, 600)
    z = 6 * np.eye(3)[y] + (3 + environment[:, None]) * rng.normal(size=(600, 3))
    np.savez("val.npz", logits=z, y=y, environment=environment)
    np.savez("plain.npz", logits=z, y=y)
    np.savez("ood.npz", logits=3 * rng.normal(size=(50, 3)))
    return ["--bootstrap", "0", "--csv", "-"]


def test_environments_of_a_file(files, capsys):
    words = ["val.npz", "plain.npz", *files]
    assert run(["compare", *words, "--methods", "ts,window"]) == 0
    assert "2 shifted sets of 200 labels, unlabeled test window" in capsys.readouterr().out
    assert run(["compare", *words, "--methods", "window", "--ood", "ood.npz"]) == 0
    assert "200 labels, 2 shifted sets" in capsys.readouterr().out  # the OOD rows are not used


def test_environments_that_no_method_reads(files, capsys):
    assert run(["compare", "val.npz", "plain.npz", *files, "--methods", "ts"]) == 0
    said = "none of the methods reads the environments of val.npz; its rows are pooled."
    assert said in capsys.readouterr().err
