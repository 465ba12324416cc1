"""A calibrator class of your own, registered by its name."""

import sys

import numpy as np
import pytest

from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.core.registry import CALIBRATORS, get_calibrator, register
from wildcal.io.artifact import load, save
from wildcal.testing import check_calibrator, make_suite

MODULE = '''
from dataclasses import dataclass, field

import numpy as np

from wildcal.core.arrays import log_softmax, softmax
from wildcal.core.calibrator import Calibrator, FitInfo
from wildcal.core.registry import register


@dataclass(kw_only=True, eq=False, repr=False)
class PriorCorrection(Calibrator):
    """p = softmax(log softmax(z) + strength * log(class frequencies))."""

    name = "made-up"
    title = "a made-up method"

    strength: float = 1.0
    log_prior_: np.ndarray = field(init=False)

    def _fit(self, data):
        counts = np.bincount(data.y, data.weight, data.n_classes) + 1
        self.log_prior_ = np.log(counts / counts.sum())
        return FitInfo()

    def formula(self, xp, z, *inputs):
        return softmax(xp, log_softmax(xp, z) + self.strength * self.log_prior_)


register("made-up", "made_up_method:PriorCorrection")
'''
SUITE = make_suite(600, 4)


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Import the module, and forget it and its registration afterwards."""
    (tmp_path / "made_up_method.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(CALIBRATORS, "made-up", ("made_up_method:PriorCorrection", {}))
    import made_up_method

    yield made_up_method
    del sys.modules["made_up_method"]


def test_it_is_found_by_name_and_passes_the_checks(made_up):
    calibrator = get_calibrator("made-up", strength=0.5)
    assert type(calibrator) is made_up.PriorCorrection
    assert repr(calibrator) == "PriorCorrection(strength=0.5)"
    check_calibrator(calibrator)


def test_it_is_saved_loaded_and_wrapped(made_up, tmp_path):
    logits, y = (column[:600] for column in SUITE.calibration)
    fitted = get_calibrator("made-up").fit(logits, y)
    save(fitted, tmp_path / "file.json")
    loaded = load(tmp_path / "file.json")
    np.testing.assert_array_equal(
        loaded.predict_proba(SUITE.test.logits), fitted.predict_proba(SUITE.test.logits)
    )
    assert isinstance(get_calibrator("dac+made-up").base, made_up.PriorCorrection)


def test_by_module_and_class(made_up):
    name = "made_up_method:PriorCorrection"
    assert type(get_calibrator(name)) is made_up.PriorCorrection
    del CALIBRATORS[name]  # get_calibrator registered it


def test_a_file_of_a_class_that_is_not_registered(made_up, tmp_path, monkeypatch):
    logits, y = (column[:600] for column in SUITE.calibration)
    save(get_calibrator("made-up").fit(logits, y), tmp_path / "file.json")
    monkeypatch.delitem(CALIBRATORS, "made-up")
    with pytest.raises(
        FileFormatError, match="needs the class 'PriorCorrection', which is not reg"
    ):
        load(tmp_path / "file.json")


def test_a_name_is_registered_once():
    register("ts", *CALIBRATORS["ts"][:1])  # the same again
    with pytest.raises(
        InputError, match="name must be new, got 'ts', which is registered."
    ) as error:
        register("ts", "somewhere:Else")
    assert error.value.param == "name"


def test_names_of_classes_are_unique(made_up):
    register("made-up-2", "made_up_method:PriorCorrection", strength=2.0)  # the same class
    del CALIBRATORS["made-up-2"]
    made_up.TemperatureScaling = type("TemperatureScaling", (made_up.PriorCorrection,), {})
    with pytest.raises(InputError, match="new class name, .*wildcal.calibrators.temperature"):
        register("mine", "made_up_method:TemperatureScaling")
