"""Which calibrators a server keeps a window for, and that it says so of the others."""

import pytest

from wildcal import ContextScaling, TemperatureScaling, save
from wildcal.cli.main import run
from wildcal.testing import make_suite
from wildcal.window import MatchedConfidence

SUITE = make_suite(seed=0)
KNOWN = SUITE.tuning.y >= 0


@pytest.mark.parametrize(
    ("calibrator", "noted"),
    [
        (MatchedConfidence(estimator="atc-ne"), True),
        (ContextScaling(), False),
        (TemperatureScaling(), False),
    ],
)
def test_a_method_without_a_window_is_named(calibrator, noted, tmp_path, monkeypatch, capsys):
    served = []
    monkeypatch.setattr("wildcal.serve.run.run", lambda models, *_: served.extend(models))
    save(calibrator.fit(SUITE.tuning.logits[KNOWN], SUITE.tuning.y[KNOWN]), tmp_path / "cal.json")
    assert run(["serve", str(tmp_path / "cal.json")]) == 0
    assert [model.name for model in served] == ["cal"]
    note = (
        "note: cal: a server keeps windows for the method context alone; with match+atc-ne each row"
        " is read as a clean one.\n"
    )
    assert capsys.readouterr().err == (note if noted else "")
