"""Which calibrators a server keeps a window for, and that it says so of the others."""

import numpy as np
import pytest

from wildcal import TemperatureScaling, WindowScaling
from wildcal._old.bridge import wrap
from wildcal._old.calibrators.context import ContextScaling
from wildcal.cli.main import run
from wildcal._old.io.artifact import save
from wildcal._old.testing import make_suite
from wildcal._old.window import MatchedConfidence

SUITE = make_suite(seed=0)
KNOWN = SUITE.tuning.y >= 0


@pytest.mark.parametrize(
    ("calibrator", "note"),
    [
        (
            MatchedConfidence(estimator="atc-ne"),
            "note: cal: a server keeps windows for the method context alone; with match+atc-ne each"
            " row is read as a clean one.\n",
        ),
        (WindowScaling(), "note: cal: served without windows, by its base ts.\n"),
        (ContextScaling(), ""),
        (TemperatureScaling(), ""),
    ],
)
def test_a_method_without_a_window_is_named(calibrator, note, tmp_path, monkeypatch, capsys):
    served = []
    monkeypatch.setattr("wildcal._old.serve.run.run", lambda models, *_: served.extend(models))
    z, y = SUITE.tuning.logits[KNOWN], SUITE.tuning.y[KNOWN]
    domain = {"domain": np.arange(len(y)) % 2} if calibrator.name == "window" else {}
    save(wrap(calibrator.fit(z, y, **domain)), tmp_path / "cal.json")
    assert run(["serve", str(tmp_path / "cal.json")]) == 0
    assert [model.name for model in served] == ["cal"]
    assert capsys.readouterr().err == note
