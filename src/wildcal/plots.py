"""Figures for notebooks: each function draws on the axes it is given, and returns them.

They draw what `wildcal reproduce` draws; matplotlib comes with the `report` extra.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from numpy.typing import ArrayLike

from wildcal.core.arrays import OOD_LABEL
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import check_choice, check_labels, check_logits
from wildcal.core.softmax import energy_and_pred
from wildcal.evaluation.protocol import Results
from wildcal.evaluation.protocol.observe import raw_scores
from wildcal.evaluation.protocol.tuning import ood_set
from wildcal.evaluation.results import LEVELS
from wildcal.io.suite import Suite
from wildcal.metrics import reliability as reliability_table
from wildcal.report.calibrator_figures import reliability_panel, temperature_panel
from wildcal.report.confidence_figures import confidence_panel
from wildcal.report.error_figures import severity_panel, type_panel
from wildcal.report.model import Panel
from wildcal.report.names import set_title, suite_labels
from wildcal.report.score_figures import box_panel, by_severity, histogram_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "corruption_bars",
    "energy_boxes",
    "energy_histograms",
    "ood_confidence_bars",
    "reliability",
    "severity_curves",
    "temperature_curve",
]


def reliability(
    axes: "Axes",
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    n_bins: int = 15,
    level: float = 0.95,
) -> "Axes":
    """Draw accuracy against confidence, bin by bin, with Wilson intervals and the rows of each bin.

    Parameters as in `wildcal.metrics.reliability`: rows with y = -1 count as wrong, and booleans
    with confidences may stand in for labels with probabilities.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> right, confidence = [True, False, True, True], [0.6, 0.6, 0.9, 0.9]
    >>> axes = reliability(Figure().subplots(), right, confidence, n_bins=10)
    >>> axes.get_title()
    'ECE 10.0 %, 4 rows'
    """
    table = reliability_table(y, proba, pred=pred, n_bins=n_bins, level=level)
    return _draw("reliability", axes, reliability_panel(table))


def energy_histograms(
    axes: "Axes",
    logits: ArrayLike,
    y: ArrayLike,
    *,
    groups: Literal["correct", "known"] | None = None,
) -> "Axes":
    """Draw the negative energy of two groups of rows, and how well it tells them apart (AUROC).

    Parameters
    ----------
    groups
        "correct": correct against incorrect rows, those with y = -1 left out. "known": rows with a
        class against rows with y = -1. By default "known" where there are such rows.
    """
    z = check_logits(logits)
    labels = check_labels(y, *z.shape, accepts_ood=True)
    known = labels != OOD_LABEL
    chosen = groups or ("correct" if known.all() else "known")
    check_choice("groups", chosen, ("correct", "known"))
    energy, pred = energy_and_pred(z)
    if chosen == "known":
        first, score, names = known, -energy, ("in-distribution", "out-of-distribution")
    else:
        first, score = (pred == labels)[known], -energy[known]
        names = ("correct", "incorrect")
    if not len(score):
        raise ValueError("y must have a label that is not -1, to tell correct from incorrect.")
    return _draw(
        "energy_histograms", axes, histogram_panel("", "negative energy", score, first, names)
    )


def energy_boxes(axes: "Axes", suite: Suite) -> "Axes":
    """Draw the negative energy and the accuracy of a suite's test rows by severity (figure 3).

    Boxes are quartiles, whiskers 5 % and 95 %, corruption types pooled. Sets of other classes stand
    at the right. What the suite lacks is left out.
    """
    for split in suite.tests():
        split.verify()
    scores = raw_scores(suite.tests())
    others = {set_title(ood_set(s.split.name)): [s] for s in scores if s.split.shift == "semantic"}
    groups = {name: found for name, found in (by_severity(scores) | others).items() if found}
    if not groups:
        raise ValueError(f"{suite.path} has no test splits to draw.")
    (label,) = suite_labels({"": suite}).values()
    return _draw("energy_boxes", axes, box_panel(", ".join(label), groups))


def severity_curves(
    axes: "Axes",
    results: Results,
    suite: str | None = None,
    methods: Sequence[str] | None = None,
) -> "Axes":
    """Draw the ECE of each method at severity 0 to 5 (figure 4).

    Parameters
    ----------
    results
        What `wildcal.evaluation.protocol.run_protocol` returned.
    suite
        Its name; may be left out where there is one only.
    methods
        Their names, by default all that were fitted.
    """
    name = _suite(results, suite)
    panel = severity_panel(results, name, name, _methods(results, name, methods))
    lacks = "clean test rows, or the same corruptions at each severity from 1 to 5, with their ECE"
    return _draw("severity_curves", axes, _filled(panel, name, lacks))


def corruption_bars(
    axes: "Axes",
    results: Results,
    suite: str | None = None,
    severity: int = 5,
    methods: Sequence[str] | None = None,
) -> "Axes":
    """Draw the ECE of each method on each corruption at one severity (figure 5).

    Other parameters as in `severity_curves`.
    """
    if severity not in LEVELS:
        raise ValueError(f"severity must be a whole number from 1 to 5, got {severity!r}.")
    name = _suite(results, suite)
    panel = type_panel(results, name, name, _methods(results, name, methods), severity)
    lacks = f"corruptions of severity {severity} with their ECE"
    return _draw("corruption_bars", axes, _filled(panel, name, lacks))


def ood_confidence_bars(
    axes: "Axes",
    results: Results,
    suite: str | None = None,
    split: str | None = None,
    methods: Sequence[str] | None = None,
) -> "Axes":
    """Draw the mean confidence of each method on rows of no class; lower is better (figure 6).

    `split` is the name of a semantic test split and may be left out where there is one only; other
    parameters as in `severity_curves`.
    """
    name = _suite(results, suite)
    measured = results.select(suite=name, shift="semantic", metric="mean_confidence")
    chosen = _one(f"split of {name}", split, list(dict.fromkeys(r.split for r in measured)))
    shown = _methods(results, name, methods)
    panel = confidence_panel(results, name, f"{name}: {chosen}", chosen, shown)
    return _draw("ood_confidence_bars", axes, _filled(panel, name, f"the confidence on {chosen}"))


def temperature_curve(axes: "Axes", calibrator: Calibrator, logits: ArrayLike) -> "Axes":
    """Draw the temperature that a fitted calibrator divides each row by, against its energy.

    For calibrators that have a temperature for each row: `EnergyScaling`, `EnergyLinear`,
    `EntropyTemperatureScaling`, `ParameterizedTemperatureScaling`, `ContextScaling` (without a
    context) and, with the same for all rows, `TemperatureScaling`.
    """
    return _draw("temperature_curve", axes, temperature_panel(calibrator, logits))


def _draw(kind: str, axes: "Axes", panel: Panel) -> "Axes":
    from wildcal.report.plots import KINDS  # matplotlib is slow to import, and an extra

    KINDS[kind](axes, panel)
    return axes


def _filled(panel: Panel, suite: str, lacks: str) -> Panel:
    if not panel.series:
        raise ValueError(f"there is nothing to draw: the results of {suite} lack {lacks}.")
    return panel


def _suite(results: Results, suite: str | None) -> str:
    return _one("suite", suite, list(results.suites))


def _one(what: str, name: str | None, known: Sequence[str]) -> str:
    """Return the name that was asked for, or the only one there is."""
    listed = ", ".join(known) or "none"
    if name is None:
        if len(known) != 1:
            raise ValueError(f"name one {what}; the results have {listed}.")
        return known[0]
    if name not in known:
        raise ValueError(f"the results have no {what} named {name!r}; they have {listed}.")
    return name


def _methods(results: Results, suite: str, methods: Sequence[str] | None) -> Sequence[str]:
    fitted = [method.name for method in results.suites[suite].methods]
    for name in methods or ():
        if name not in fitted:
            known = f"fitted were {', '.join(fitted) or 'none'}."
            reason = results.suites[suite].failed.get(name, known)
            raise ValueError(f"{suite} has no results of {name!r}: {reason}")
    return fitted if methods is None else methods
