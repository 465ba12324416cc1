"""What is to be seen of raw logits: energy, and the temperature that a row is divided by."""

from typing import TYPE_CHECKING, Literal

from numpy.typing import ArrayLike

from wildcal._old.bridge import wrap
from wildcal._old.core.arrays import OOD_LABEL
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import check_choice, check_labels, check_logits
from wildcal._old.core.softmax import energy_and_pred
from wildcal._old.evaluation.protocol.observe import raw_scores
from wildcal._old.evaluation.protocol.tuning import ood_set
from wildcal._old.io.suite import Suite
from wildcal._old.metrics import auroc
from wildcal._old.plots.canvas import draw
from wildcal._old.report.calibrator_figures import temperature_panel
from wildcal._old.report.model import Panel
from wildcal._old.report.names import set_title, suite_labels
from wildcal._old.report.score_figures import (
    box_panel,
    by_severity,
    density_series,
    histogram_panel,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def energy_histograms(
    logits: ArrayLike,
    y: ArrayLike,
    *,
    groups: Literal["correct", "known", "all"] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the negative energy of groups of rows, and how well it tells them apart (AUROC).

    Parameters
    ----------
    logits, y
        Logits (n, K) and labels (n,), -1 for rows of no class.
    groups
        "correct": correct against incorrect rows, those with y = -1 left out. "known": rows with a
        class against rows with y = -1. "all": correct, incorrect and unknown rows. By default
        "known" where there are rows with y = -1.
    ax
        Where to draw; a new axis if left out.
    """
    z = check_logits(logits)
    labels = check_labels(y, *z.shape, accepts_ood=True)
    known = labels != OOD_LABEL
    chosen = groups or ("correct" if known.all() else "known")
    check_choice("groups", chosen, ("correct", "known", "all"))
    energy, pred = energy_and_pred(z)
    right = pred == labels
    if chosen == "known":
        names = ("in-distribution", "out-of-distribution")
        panel = histogram_panel("", "negative energy", -energy, known, names)
    elif not known.any():
        raise ValueError("y must have a label that is not -1, to tell correct from incorrect.")
    elif chosen == "correct":
        names = ("correct", "incorrect")
        panel = histogram_panel("", "negative energy", -energy[known], right[known], names)
    else:
        rows = {"correct": right, "incorrect": known & ~right, "unknown": ~known}
        told = [
            f"{name} {100 * auroc(right[right | other], -energy[right | other]):.1f} %"
            for name, other in list(rows.items())[1:]
            if other.any() and right.any()
        ]
        title = f"AUROC, correct against {', '.join(told)}" if told else ""
        series = density_series(-energy, rows)
        panel = Panel(title, "negative energy", "density", series)
    return draw("energy_histograms", ax, panel)


def energy_boxes(suite: Suite, *, ax: "Axes | None" = None) -> "Axes":
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
    return draw("energy_boxes", ax, box_panel(", ".join(label), groups))


def temperature_curve(
    calibrator: Calibrator, logits: ArrayLike, *, ax: "Axes | None" = None
) -> "Axes":
    """Draw the temperature that a fitted calibrator divides each row by, against its energy.

    For calibrators that have a temperature for each row: `EnergyScaling`, `EnergyLinear`,
    `EntropyTemperatureScaling`, `ParameterizedTemperatureScaling` and, with the same for all rows,
    `TemperatureScaling`.
    """
    return draw("temperature_curve", ax, temperature_panel(wrap(calibrator), logits))
