"""Figures of calibration error: by severity (4, 7) and by corruption type (5, 8)."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from wildcal._old.calibrators import PAPER_METHODS
from wildcal._old.evaluation.protocol import Results
from wildcal._old.report.average_tables import (
    CELLS_COMMAND,
    CELLS_NEEDED,
    TRANSFORMERS_COMMAND,
    TRANSFORMERS_NEEDED,
)
from wildcal._old.report.model import FigureArtifact, Made, MissingInputs, Panel, Series
from wildcal._old.report.names import WITH_BOTH, is_transformer, method_title
from wildcal._old.report.study import PAPER, Condition, Study, every, knowledge, troubles

_WORST: Final = ("a suite with corrupted test splits of severity 5", CELLS_COMMAND)


def severity_panel(results: Results, suite: str, title: str, methods: Sequence[str]) -> Panel:
    """Return the ECE of each method at severity 0 to 5."""
    fitted = {method.name for method in results.suites[suite].methods}
    series = []
    for method in methods:
        if method in fitted:
            levels = results.average(suite, method).levels
            if not np.isnan(levels).any() and results.has_levels(suite):
                y = tuple(100 * level for level in levels)
                series.append(Series(method_title(method), tuple(map(float, range(6))), y))
    return Panel(title, "severity", "ECE (%)", tuple(series))


def type_panel(
    results: Results, suite: str, title: str, methods: Sequence[str], severity: int = 5
) -> Panel:
    """Return the ECE of each method on each corruption at one severity."""
    series = []
    for method in methods:
        cells = results.select(suite=suite, method=method, metric="ece", severity=severity)
        if cells:
            series.append(
                Series(
                    method_title(method),
                    tuple(str(cell.corruption) for cell in cells),
                    tuple(100 * cell.value for cell in cells),
                    tuple(None if cell.low is None else 100 * cell.low for cell in cells),
                    tuple(None if cell.high is None else 100 * cell.high for cell in cells),
                )
            )
    return Panel(title, f"corruption, severity {severity}", "ECE (%)", tuple(series))


_PANELS: Final = {"severity_curves": (severity_panel, 2), "corruption_bars": (type_panel, 1)}
"""What makes a panel, and how many stand side by side."""


def _figure(
    study: Study,
    name: str,
    title: str,
    kind: str,
    methods: Sequence[str],
    absent: tuple[str, str],
    only: Condition = every,
) -> Made:
    """Return a panel for each suite; `absent` is what is needed, and the command for it."""
    make, n_columns = _PANELS[kind]
    results = study.results(PAPER, only)
    panels = {
        suite: make(results, suite, ", ".join(study.labels[suite]), methods)
        for suite in results.suites
    }
    drawn = {suite: panel for suite, panel in panels.items() if panel.series}
    left_out = troubles(results, methods)
    if not drawn:
        return MissingInputs(name, title, *absent, tuple(left_out))
    notes = (*knowledge(study, results, methods, drawn), *left_out)
    return FigureArtifact(name, title, kind, tuple(drawn.values()), n_columns, notes)


def fig4(study: Study) -> Made:
    """Return ECE by severity."""
    title = "Figure 4: ECE by severity"
    absent = (CELLS_NEEDED, CELLS_COMMAND)
    return _figure(study, "fig4", title, "severity_curves", PAPER_METHODS, absent)


def fig5(study: Study) -> Made:
    """Return ECE by corruption type."""
    title = "Figure 5: ECE by corruption at severity 5"
    return _figure(study, "fig5", title, "corruption_bars", PAPER_METHODS, _WORST)


def fig7(study: Study) -> Made:
    """Return ECE by severity of vision transformers."""
    title = "Figure 7: ECE of vision transformers by severity"
    methods = ("identity", "energy")
    absent = (TRANSFORMERS_NEEDED, TRANSFORMERS_COMMAND)
    return _figure(study, "fig7", title, "severity_curves", methods, absent, is_transformer)


def fig8(study: Study) -> Made:
    """Return figure 5 with the energy method tuned without out-of-distribution rows."""
    title = "Figure 8: ECE by corruption at severity 5, with and without OOD rows in the tuning"
    return _figure(study, "fig8", title, "corruption_bars", WITH_BOTH, _WORST)
