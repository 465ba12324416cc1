"""Methods of the user on the command line: MODULE:CLASS, entry points, --use."""

import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from wildcal import CALIBRATORS
from wildcal._old.calibrators import CALIBRATORS as OLD
from wildcal._old.calibrators import own
from wildcal.cli.main import run
from wildcal._old.testing import make_suite
from wildcal.core import registry
from wildcal.core.exceptions import FileFormatError
from wildcal.io.artifact import load

SUITE = make_suite(seed=1, n_tuning=200, n_test=100, n_ood_tuning=0)
CODE = """
from dataclasses import dataclass
from wildcal import TemperatureScaling

@dataclass
class Mine(TemperatureScaling):
    name = "mine-of-tests"
    title = "my own scaling"

@dataclass
class Shadow(TemperatureScaling):
    pass

class NotOne:
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_of_tests.py").write_text(CODE)
    np.savez("val.npz", logits=SUITE.tuning.logits, y=SUITE.tuning.y)
    np.savez("test.npz", logits=SUITE.clean.logits, y=SUITE.clean.y)
    yield tmp_path
    forget()


def forget():
    for known in (CALIBRATORS, OLD):
        known.pop("mine-of-tests", None)
    sys.modules.pop("own_of_tests", None)


def test_fit_compare_inspect_apply(folder, capsys):
    assert run("fit val.npz --method own_of_tests:Mine -o m.json".split()) == 0
    assert "Fitted my own scaling" in capsys.readouterr().err
    assert run("compare val.npz test.npz --methods own_of_tests:Mine --bootstrap 0".split()) == 0
    assert "own_of_tests:Mine" in capsys.readouterr().out
    forget()  # as in another process
    assert run("inspect m.json".split()) == 1
    assert "Try --use MODULE:CLASS" in capsys.readouterr().err
    assert run("--use own_of_tests:Mine inspect m.json".split()) == 0
    assert capsys.readouterr().out.startswith("My own scaling (mine-of-tests)")
    assert run("--use own_of_tests:Mine apply m.json test.npz -o p.npz".split()) == 0


def test_an_entry_point_goes_by_its_name(folder, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(folder))
    point = EntryPoint("mine-of-tests", "own_of_tests:Mine", own.GROUP)

    def points(*, group, name=None):
        return [point] if group == own.GROUP and name in (None, point.name) else []

    monkeypatch.setattr(own, "entry_points", points)
    monkeypatch.setattr(registry, "entry_points", points)
    assert run("fit val.npz --method mine-of-tests -o m.json".split()) == 0
    forget()
    assert run("inspect m.json".split()) == 0
    forget()
    capsys.readouterr()
    assert run("methods".split()) == 0
    assert "my own scaling" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_of_tests:Other", "own_of_tests has no 'Other'"),
        ("own_of_tests:NotOne", "must be a class that derives from wildcal.Calibrator"),
        ("own_of_tests:Shadow", "is called 'ts', which is a method of wildcal's"),
        ("gone_of_tests:Mine", "cannot import the method gone_of_tests:Mine"),
    ],
)
def test_what_is_no_method(folder, capsys, name, said):
    assert run(["fit", "val.npz", "--method", name, "-o", "x.json"]) == 2
    assert said in capsys.readouterr().err


def test_a_file_names_no_module_to_import(folder, capsys):
    assert run("fit val.npz --method own_of_tests:Mine -o m.json".split()) == 0
    text = (folder / "m.json").read_text()
    assert "own_of_tests" not in text
    forget()
    with pytest.raises(FileFormatError, match="needs the class 'Mine', which is not registered"):
        load(folder / "m.json")
    assert "own_of_tests" not in sys.modules
