"""Figures 6 and 9: the mean confidence on Textures, which belong to no class."""

from collections.abc import Sequence

from wildcal._old.calibrators import PAPER_METHODS
from wildcal._old.evaluation.protocol import Results
from wildcal._old.report.model import FigureArtifact, Made, MissingInputs, Panel, Series
from wildcal._old.report.names import WITH_BOTH, method_title
from wildcal._old.report.other_tables import TEXTURES_COMMAND, TEXTURES_NEEDED, record_cell
from wildcal._old.report.study import Study, knowledge, troubles


def confidence_panel(
    results: Results, suite: str, title: str, split: str, methods: Sequence[str]
) -> Panel:
    """Return the mean confidence of each method on one split."""
    found = {
        method_title(method): 100 * cell.value
        for method in methods
        if (cell := record_cell(results, suite, method, split, "mean_confidence"))
    }
    series = (Series("mean confidence", tuple(found), tuple(found.values())),) if found else ()
    return Panel(title, "method", "mean confidence (%)", series)


def fig6(study: Study) -> Made:
    """Return the mean calibrated confidence on Textures, tuned with SVHN."""
    return _bars(study, "fig6", "Figure 6: mean confidence on Textures", PAPER_METHODS)


def fig9(study: Study) -> Made:
    """Return figure 6 with the energy method tuned without out-of-distribution rows."""
    title = "Figure 9: mean confidence on Textures, with and without OOD rows in the tuning"
    return _bars(study, "fig9", title, WITH_BOTH)


def _bars(study: Study, name: str, title: str, methods: Sequence[str]) -> Made:
    results = study.results("svhn")
    panels: dict[str, Panel] = {}
    left_out = troubles(results, methods)
    for suite in results.suites:
        label = ", ".join(study.labels[suite])
        panel = confidence_panel(results, suite, label, "textures-test", methods)
        if panel.series:
            panels[suite] = panel
    if not panels:
        return MissingInputs(name, title, TEXTURES_NEEDED, TEXTURES_COMMAND, tuple(left_out))
    known = knowledge(study, results, methods, panels)
    notes = ("Lower is better: no class is right.", *known, *left_out)
    return FigureArtifact(name, title, "ood_confidence_bars", tuple(panels.values()), 2, notes)
