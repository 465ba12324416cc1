"""Figures: drawn on given axes, the same bytes each time, a clear word where matplotlib is not."""

import sys
from dataclasses import replace

import pytest

from wildcal._old.core.errors import MissingExtraError
from wildcal._old.report import ARTIFACTS, write_artifact
from wildcal._old.report.model import FigureArtifact, Panel, Series

FIGURES = [name for name in ARTIFACTS if name.startswith("fig")]


@pytest.mark.parametrize("name", FIGURES)
def test_files_are_the_same_each_time(needs, study, tmp_path, name):
    needs("matplotlib")
    made = ARTIFACTS[name].make(study)
    made = replace(made, panels=made.panels[:1])  # one is drawn as all are
    forms = ("png", "svg", "pdf") if name == "fig1" else ("svg",)
    runs = []
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        files = write_artifact(made, tmp_path / run, pictures=forms)
        assert [f.name for f in files] == [f"{name}.{form}" for form in ("md", "csv", *forms)]
        runs.append([f.read_bytes() for f in files])
    assert runs[0] == runs[1]
    assert all(len(raw) > 0 for raw in runs[0])


@pytest.mark.parametrize("name", FIGURES)
def test_axes_say_what_they_show(needs, study, name):
    needs("matplotlib")
    from matplotlib.figure import Figure

    from wildcal._old.report.plots import KINDS

    made = ARTIFACTS[name].make(study)
    axes = Figure().subplots()
    KINDS[made.kind](axes, made.panels[0])
    assert axes.get_xlabel() == made.panels[0].x_label
    assert axes.get_ylabel() == made.panels[0].y_label
    assert axes.get_title() == made.panels[0].title
    if made.kind in ("severity_curves", "corruption_bars", "energy_histograms"):
        shown = [text.get_text() for text in axes.get_legend().get_texts()]
        assert shown == [series.name for series in made.panels[0].series]


def test_a_dollar_is_no_formula(needs, tmp_path):
    needs("matplotlib")
    panel = Panel(r"$\broken$", "severity", "ECE (%)", (Series("TS", (0.0, 1.0), (1.0, 2.0)),))
    made = FigureArtifact("fig4", "F", "severity_curves", (panel,))
    assert write_artifact(made, tmp_path, texts=())[0].stat().st_size > 0


def test_without_matplotlib(monkeypatch):
    monkeypatch.delitem(sys.modules, "wildcal._old.report.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError) as error:
        import wildcal._old.report.plots  # noqa: F401
    assert str(error.value) == (
        'wildcal._old.report.plots needs matplotlib. Install it with: pip install "wildcal[report]"'
    )
