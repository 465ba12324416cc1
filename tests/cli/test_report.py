"""`wildcal report`: a whole page or none, and one line where something is wrong."""

import csv
import zipfile

import pytest

from wildcal.cli.main import run


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_writes_the_page_and_the_numbers(tmp_path, capsys):
    words = "report cifar10-vgg11-half --methods ts,energy --bootstrap 0 --csv numbers.csv"
    assert run(words.split()) == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert capsys.readouterr().err.startswith("Wrote report.html")
    with (tmp_path / "numbers.csv").open() as file:
        methods = {row["method"] for row in csv.DictReader(file)}
    assert methods == {"identity", "ts", "energy"}
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "numbers.csv"}


WRONG = {
    "no suite": ("report nope", 1, "nope"),
    "method": (
        "report cifar10-resnet20 --methods tss",
        2,
        "there is no method 'tss'; did you mean",
    ),
    "folder": ("report cifar10-resnet20 -o no/report.html", 1, "the folder no does not exist"),
    "one replicate": ("report cifar10-resnet20 --bootstrap 1", 2, "at least 2"),
    "one file": ("report cifar10-resnet20 -o x --csv x", 2, "give -o and --csv different files"),
    "no bins": ("report cifar10-resnet20 --bins 0", 2, "0 is not in the range"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input(case, tmp_path, capsys):
    words, code, said = WRONG[case]
    assert run(words.split()) == code
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_an_old_page_survives_an_interrupt(tmp_path, monkeypatch, capsys):
    (tmp_path / "report.html").write_text("old")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("wildcal._old.report.page.make_page", interrupted)
    assert run("report cifar10-vgg11-half --methods ts --bootstrap 0".split()) == 130
    assert "interrupted" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "old"


def test_a_lost_cell_is_named_and_the_rest_is_there(tmp_path, capsys):
    assert run("suite pack cifar10-vgg11-half -o packed.npz".split()) == 0
    with zipfile.ZipFile("packed.npz") as packed:
        packed.extractall("mine")
    (tmp_path / "mine" / "fog-3.logits.npy").unlink()
    assert run("report mine --methods ts --bootstrap 0".split()) == 0
    assert "fog-3" in capsys.readouterr().err
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<h2>Left out</h2>" in page
    assert "fog-3" in page
