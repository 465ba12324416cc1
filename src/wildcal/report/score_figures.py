"""Figures of the raw scores: histograms of confidence and energy (1), energy by severity (3)."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.evaluation.protocol.results import LEVELS
from wildcal.evaluation.protocol.shared import walk
from wildcal.io.suite import Suite, SuiteSplit
from wildcal.metrics import auroc
from wildcal.report.model import FigureArtefact, Made, MissingInputs, Panel, Series
from wildcal.report.study import Study, readable

QUANTILES: Final = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}
ACCURACY: Final = "accuracy"
_N_BINS: Final = 40
_SVHN: Final = "svhn-test"
_COMMAND: Final = "wildcal extract DATA --network NETWORK.safetensors --semantic svhn -o SUITE"


def fig1(study: Study) -> Made:
    """Return histograms of softmax confidence and negative energy, of two pairs of groups."""
    title = "Figure 1: softmax confidence and negative energy"
    panels: list[Panel] = []
    notes = ["AUROC: how often a row of the first group has the higher score."]
    for name, suite in study.suites.items():
        try:
            panels += _four(study, name, suite, notes)
        except ValueError as error:
            notes.append(f"{name} is left out: {error}")
    if not panels:
        needs = "a suite with a clean test split and test rows of SVHN"
        return MissingInputs("fig1", title, needs, _COMMAND, tuple(notes[1:]))
    return FigureArtefact("fig1", title, "energy_histograms", tuple(panels), 4, tuple(notes))


def _four(study: Study, name: str, suite: Suite, notes: list[str]) -> list[Panel]:
    strange = [split for split in suite.tests("semantic") if split.name == _SVHN]
    splits = readable([*suite.tests("none"), *strange], notes)
    if [split.shift for split in splits] != ["none", "semantic"]:
        raise ValueError("it lacks one clean test split or SVHN's.")
    clean, strangers = study.walk(name, splits)
    known = np.arange(len(clean.energy) + len(strangers.energy)) < len(clean.energy)
    pairs: list[tuple[BoolArray, tuple[str, str], int]] = [
        (clean.correct, ("correct", "incorrect"), len(clean.energy)),
        (known, ("test rows", "SVHN"), len(known)),
    ]
    scores = {
        "softmax confidence": np.concatenate([clean.confidence[0], strangers.confidence[0]]),
        "negative energy": -np.concatenate([clean.energy, strangers.energy]),
    }
    label = ", ".join(study.labels[name])
    return [
        histogram_panel(label, score, values[:n], first, groups)
        for first, groups, n in pairs
        for score, values in scores.items()
        if first.any() and not first.all()
    ]


def histogram_panel(
    label: str, score: str, values: FloatArray, first: BoolArray, groups: tuple[str, str]
) -> Panel:
    """Return the densities of one score in two groups; a group without rows is left out."""
    edges = np.histogram_bin_edges(values, _N_BINS)
    series = []
    for group, rows in zip(groups, (first, ~first), strict=True):
        if not rows.any():
            continue
        density, _ = np.histogram(values[rows], edges, density=True)
        # The last edge closes the last bin, with no height of its own.
        y = (*density.tolist(), 0.0)
        series.append(Series(group, tuple(edges.tolist()), y))
    if len(series) == 2:
        label = f"{label}\nAUROC {100 * auroc(first, values):.1f} %"
    return Panel(label.strip(), score, "density", tuple(series))


def fig3(study: Study) -> Made:
    """Return quantiles of the negative energy and the accuracy by severity, and for SVHN."""
    title = "Figure 3: negative energy by severity"
    panels, notes = [], ["Boxes: quartiles; whiskers: 5 % and 95 %; corruption types pooled."]
    for name, suite in study.suites.items():
        try:
            panels.append(_boxes(study, name, suite, notes))
        except ValueError as error:
            notes.append(f"{name} is left out: {error}")
    if not panels:
        needs = "a suite with clean and corrupted test splits of severities 1 to 5, and SVHN's"
        return MissingInputs("fig3", title, needs, _COMMAND, tuple(notes[1:]))
    return FigureArtefact("fig3", title, "energy_boxes", tuple(panels), 2, tuple(notes))


def _boxes(study: Study, name: str, suite: Suite, notes: list[str]) -> Panel:
    groups = {group: readable(splits, notes) for group, splits in by_severity(suite).items()}
    strange = [split for split in suite.tests("semantic") if split.name == _SVHN]
    groups["SVHN"] = readable(strange, notes)
    missing = [group for group, splits in groups.items() if not splits]
    if missing:
        raise ValueError(f"it has no test rows of severity or set {', '.join(missing)}.")
    study.progress(f"{name}: energies", 0)
    return box_panel(", ".join(study.labels[name]), groups)


def by_severity(suite: Suite) -> dict[str, Sequence[SuiteSplit]]:
    """Return the test splits of severity 0 to 5, a list each."""
    levels = {str(level): suite.tests("covariate", severity=level) for level in LEVELS}
    return {"0": suite.tests("none"), **levels}


def box_panel(title: str, groups: Mapping[str, Sequence[SuiteSplit]]) -> Panel:
    """Return quantiles of the negative energy and the accuracy of groups of splits.

    Rows of other classes have no accuracy.
    """
    energies: dict[str, FloatArray] = {}
    accuracy: dict[str, float] = {}
    for group, splits in groups.items():
        rows = list(walk(splits, []))  # energy and class need no method
        energies[group] = -np.concatenate([r.energy for r in rows])
        right = np.concatenate([r.correct for r in rows])
        strange = any(split.shift == "semantic" for split in splits)
        accuracy[group] = float("nan") if strange else 100 * float(right.mean())
    x = tuple(energies)
    series = [
        Series(name, x, tuple(float(np.quantile(values, q)) for values in energies.values()))
        for name, q in QUANTILES.items()
    ]
    series.append(Series(ACCURACY, x, tuple(accuracy.values())))
    return Panel(title, "severity", "negative energy", tuple(series))
