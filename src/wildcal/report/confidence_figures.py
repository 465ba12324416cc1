"""Figures 6 and 9: the mean confidence on Textures, which belong to no class."""

from collections.abc import Sequence

from wildcal.calibrators import PAPER_METHODS
from wildcal.report.model import FigureArtefact, Made, MissingInputs, Panel, Series
from wildcal.report.names import METHOD_TITLES, WITH_BOTH
from wildcal.report.other_tables import TEXTURES_COMMAND, TEXTURES_NEEDED, record_cell
from wildcal.report.study import Study, knowledge, troubles


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
        found = {
            METHOD_TITLES[method]: 100 * cell.value
            for method in methods
            if (cell := record_cell(results, suite, method, "textures-test", "mean_confidence"))
        }
        if found:
            series = Series("mean confidence", tuple(found), tuple(found.values()))
            label = ", ".join(study.labels[suite])
            panels[suite] = Panel(label, "method", "mean confidence (%)", (series,))
    if not panels:
        return MissingInputs(name, title, TEXTURES_NEEDED, TEXTURES_COMMAND, tuple(left_out))
    known = knowledge(study, results, methods, panels)
    notes = ("Lower is better: no class is right.", *known, *left_out)
    return FigureArtefact(name, title, "ood_confidence_bars", tuple(panels.values()), 2, notes)
