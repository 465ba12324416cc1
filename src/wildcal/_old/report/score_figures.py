"""Figures of the raw scores: histograms of confidence and energy (1), energy by severity (3)."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from wildcal._old.core.arrays import BoolArray, FloatArray
from wildcal._old.evaluation.protocol.observe import Scores
from wildcal._old.evaluation.results import LEVELS
from wildcal._old.metrics import auroc
from wildcal._old.report.model import FigureArtifact, Made, MissingInputs, Panel, Series
from wildcal._old.report.study import PAPER, Study, troubles

QUANTILES: Final = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}
ACCURACY: Final = "accuracy"
_N_BINS: Final = 40
_SVHN: Final = "svhn-test"
_COMMAND: Final = "wildcal extract DATA --network NETWORK.safetensors --ood svhn -o SUITE"


def fig1(study: Study) -> Made:
    """Return histograms of softmax confidence and negative energy, of two pairs of groups."""
    title = "Figure 1: softmax confidence and negative energy"
    results = study.results(PAPER)
    panels: list[Panel] = []
    notes = ["AUROC: how often a row of the first group has the higher score."]
    left_out = troubles(results, ())
    for name, found in results.suites.items():
        seen = found.observed
        if seen is None or seen.clean is None or _SVHN not in seen.ood:
            notes.append(f"{name} is left out: it lacks one clean test split or SVHN's.")
            continue
        label = ", ".join(study.labels[name])
        panels += score_panels(label, seen.clean, None, ("correct", "incorrect"))
        panels += score_panels(label, seen.clean, seen.ood[_SVHN], ("test rows", "SVHN"))
    if not panels:
        needs = "a suite with a clean test split and test rows of SVHN"
        return MissingInputs("fig1", title, needs, _COMMAND, (*notes[1:], *left_out))
    notes += left_out
    return FigureArtifact("fig1", title, "energy_histograms", tuple(panels), 4, tuple(notes))


def score_panels(
    label: str, clean: Scores, other: Scores | None, groups: tuple[str, str]
) -> list[Panel]:
    """Return confidence and energy: right against wrong rows, or clean rows against others."""
    sets = [clean] if other is None else [clean, other]
    energy = np.concatenate([s.energy for s in sets])
    first = clean.correct if other is None else np.arange(len(energy)) < len(clean.energy)
    if not first.any() or first.all():
        return []
    scores = {
        "softmax confidence": np.concatenate([s.confidence for s in sets]),
        "negative energy": -energy,
    }
    return [
        histogram_panel(label, score, values, first, groups) for score, values in scores.items()
    ]


def histogram_panel(
    label: str, score: str, values: FloatArray, first: BoolArray, groups: tuple[str, str]
) -> Panel:
    """Return the densities of one score in two groups; a group without rows is left out."""
    series = density_series(values, dict(zip(groups, (first, ~first), strict=True)))
    if len(series) == 2:
        label = f"{label}\nAUROC {100 * auroc(first, values):.1f} %"
    return Panel(label.strip(), score, "density", series)


def density_series(values: FloatArray, groups: Mapping[str, BoolArray]) -> tuple[Series, ...]:
    """Return the density of one score in each group that has rows, all with the same bins."""
    edges = np.histogram_bin_edges(values, _N_BINS)
    series = []
    for group, rows in groups.items():
        if not rows.any():
            continue
        density, _ = np.histogram(values[rows], edges, density=True)
        # The last edge closes the last bin, with no height of its own.
        y = (*density.tolist(), 0.0)
        series.append(Series(group, tuple(edges.tolist()), y))
    return tuple(series)


def fig3(study: Study) -> Made:
    """Return quantiles of the negative energy and the accuracy by severity, and for SVHN."""
    title = "Figure 3: negative energy by severity"
    results = study.results(PAPER)
    panels, notes = [], ["Boxes: quartiles; whiskers: 5 % and 95 %; corruption types pooled."]
    left_out = troubles(results, ())
    for name, found in results.suites.items():
        scores = [] if found.observed is None else list(found.observed.scores.values())
        groups = by_severity(scores)
        groups["SVHN"] = [s for s in scores if s.split.name == _SVHN]
        missing = [group for group, splits in groups.items() if not splits]
        if missing:
            lacks = f"it has no test rows of severity or set {', '.join(missing)}."
            notes.append(f"{name} is left out: {lacks}")
            continue
        panels.append(box_panel(", ".join(study.labels[name]), groups))
    if not panels:
        needs = "a suite with clean and corrupted test splits of severities 1 to 5, and SVHN's"
        return MissingInputs("fig3", title, needs, _COMMAND, (*notes[1:], *left_out))
    notes += left_out
    return FigureArtifact("fig3", title, "energy_boxes", tuple(panels), 2, tuple(notes))


def by_severity(scores: Sequence[Scores]) -> dict[str, Sequence[Scores]]:
    """Return the splits of severity 0 to 5, a list each."""
    levels = {
        str(level): [s for s in scores if s.split.corruption and s.split.severity == level]
        for level in LEVELS
    }
    return {"0": [s for s in scores if s.split.shift == "none"], **levels}


def box_panel(title: str, groups: Mapping[str, Sequence[Scores]]) -> Panel:
    """Return quantiles of the negative energy and the accuracy of groups of splits.

    Rows of other classes have no accuracy.
    """
    energies: dict[str, FloatArray] = {}
    accuracy: dict[str, float] = {}
    for group, sets in groups.items():
        energies[group] = -np.concatenate([s.energy for s in sets])
        right = np.concatenate([s.correct for s in sets])
        strange = any(s.split.shift == "semantic" for s in sets)
        accuracy[group] = float("nan") if strange else 100 * float(right.mean())
    x = tuple(energies)
    series = [
        Series(name, x, tuple(float(np.quantile(values, q)) for values in energies.values()))
        for name, q in QUANTILES.items()
    ]
    series.append(Series(ACCURACY, x, tuple(accuracy.values())))
    return Panel(title, "severity", "negative energy", tuple(series))
