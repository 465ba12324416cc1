"""Tables of averages over severities: 1 (ECE), 2 (DAC), 4 (KDE-ECE), 5 (SCE), 6, 8 and 9."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from wildcal._old.calibrators import PAPER_METHODS
from wildcal._old.evaluation.protocol import Results
from wildcal._old.evaluation.protocol.tuning import ood_set
from wildcal._old.io.suite import Suite
from wildcal._old.report.model import Cell, Made, MissingInputs, Row, TableArtifact
from wildcal._old.report.names import (
    BASELINES,
    DATA_TITLES,
    METHOD_TITLES,
    WITH_BOTH,
    WITH_DAC,
    is_transformer,
    set_title,
)
from wildcal._old.report.study import PAPER, Condition, Study, every, knowledge, troubles

TUNING_SETS: Final = ("svhn", "textures")
SUITE_WORDS: Final = ("data set", "network")
CELLS_NEEDED: Final = (
    "a suite with a clean test split and the same corruptions at each of the severities 1 to 5"
)
CELLS_COMMAND: Final = "wildcal extract DATA --network NETWORK.safetensors -o SUITE"
DISTANCES_NEEDED: Final = f"{CELLS_NEEDED}, and distances to training images in inner layers"
DISTANCES_COMMAND: Final = f"{CELLS_COMMAND} --features"
TRANSFORMERS_NEEDED: Final = (
    "a suite of a vision transformer, a network with vit or swin in its name, on ImageNet, with 19"
    " corruptions x 5 severities"
)
TRANSFORMERS_COMMAND: Final = (
    "wildcal extract DATA --dataset imagenet --network vit_b_32.onnx -o SUITE"
)
_AVERAGE: Final = (
    "Average over severity 0 and the means over corruption types at severities 1 to 5, in percent."
)
_NAMED: Final = "Of {} there are no severities: the average of clean rows and of each shift."


def average_cell(results: Results, suite: str, method: str, metric: str) -> Cell | None:
    """Return the paper's average; None where the method failed or cells are missing."""
    fitted = {m.name: m for m in results.suites[suite].methods}
    if method not in fitted:
        return None
    average = results.average(suite, method, metric)
    if math.isnan(average.value):
        return None
    knew = fitted[method].knew.words()
    return Cell(average.value, average.low, average.high, average.floor, knew=knew)


def average_table(
    study: Study,
    name: str,
    title: str,
    metric: str,
    methods: Sequence[str] = PAPER_METHODS,
    only: Condition = every,
) -> Made:
    """Return a metric averaged as the paper does, a row for each suite."""
    results = study.results(PAPER, only)
    rows, left_out = [], troubles(results, methods)
    for suite in results.suites:
        cells = tuple(average_cell(results, suite, method, metric) for method in methods)
        if any(cells):
            rows.append(Row(suite, study.labels[suite], cells))
        else:
            left_out.append(f"{suite} is left out: the average needs {CELLS_NEEDED}.")
    if not rows:
        return MissingInputs(name, title, CELLS_NEEDED, CELLS_COMMAND, tuple(left_out))
    known = knowledge(study, results, methods, [row.suite for row in rows])
    named = [" ".join(row.labels) for row in rows if results.has_names(row.suite)]
    notes = [_AVERAGE, *([_NAMED.format(", ".join(named))] if named else []), *known, *left_out]
    absent = [t for t in DATA_TITLES.values() if t not in {row.labels[0] for row in rows}]
    if absent:
        notes.append(f"The paper also has rows of {' and '.join(absent)}; no suite of these.")
    titles = tuple(METHOD_TITLES[method] for method in methods)
    return TableArtifact(name, title, SUITE_WORDS, titles, tuple(rows), tuple(notes))


def table1(study: Study) -> Made:
    """Return the average ECE."""
    return average_table(study, "table1", "Table 1: average ECE under covariate shift", "ece")


def has_distances(suite: Suite) -> bool:
    """Return whether every split that is tuned or tested with has distances to training images."""
    splits = (*suite.tune("none"), *suite.tune("semantic"), *suite.tests())
    return bool(splits) and all(split.has_distances for split in splits)


def table2(study: Study) -> Made:
    """Return the average ECE with and without density-aware calibration."""
    title = "Table 2: average ECE with and without density-aware calibration (DAC)"
    made = average_table(study, "table2", title, "ece", WITH_DAC, has_distances)
    if isinstance(made, MissingInputs):
        return replace(made, needs=DISTANCES_NEEDED, command=DISTANCES_COMMAND)
    absent = [name for name, suite in study.suites.items() if not has_distances(suite)]
    notes = [f"No distances, so left out: {', '.join(absent)}."] if absent else []
    return replace(made, notes=(*made.notes, *notes))


def table4(study: Study) -> Made:
    """Return the average KDE-ECE."""
    title = "Table 4: average KDE-ECE under covariate shift"
    return average_table(study, "table4", title, "kde_ece")


def table5(study: Study) -> Made:
    """Return the average classwise error."""
    return average_table(study, "table5", "Table 5: average SCE under covariate shift", "sce")


def table9(study: Study) -> Made:
    """Return the average ECE, also of the energy method without out-of-distribution rows."""
    title = "Table 9: average ECE, with and without out-of-distribution rows in the tuning"
    return average_table(study, "table9", title, "ece", WITH_BOTH)


def table6(study: Study) -> Made:
    """Return the average ECE and KDE-ECE of vision transformers."""
    title = "Table 6: vision transformers, average ECE and KDE-ECE"
    methods = ("identity", "energy")
    results = study.results(PAPER, is_transformer)
    rows = []
    for suite in results.suites:
        for metric, word in (("ece", "ECE"), ("kde_ece", "KDE-ECE")):
            cells = tuple(average_cell(results, suite, method, metric) for method in methods)
            if any(cells):
                rows.append(Row(suite, (*study.labels[suite], word), cells))
    if not rows:
        left_out = tuple(troubles(results, methods))
        return MissingInputs("table6", title, TRANSFORMERS_NEEDED, TRANSFORMERS_COMMAND, left_out)
    titles = tuple(METHOD_TITLES[method] for method in methods)
    known = knowledge(study, results, methods, [row.suite for row in rows])
    notes = (_AVERAGE, *known, *troubles(results, methods))
    return TableArtifact("table6", title, (*SUITE_WORDS, "metric"), titles, tuple(rows), notes)


def has_both_sets(suite: Suite) -> bool:
    """Return whether a suite can be tuned with either set."""
    return {ood_set(split.name) for split in suite.tune("semantic")} >= set(TUNING_SETS)


def table8(study: Study) -> Made:
    """Return the average ECE for two sets of out-of-distribution rows to tune with."""
    title = "Table 8: average ECE by the out-of-distribution set in the tuning"
    both = {ood: study.results(ood, has_both_sets) for ood in TUNING_SETS}
    names = [n for n in study.suites if all(n in results.suites for results in both.values())]
    rows, notes = [], [_AVERAGE, "SoTA: the best of the baselines on the test sets, by suite."]
    for name in names:
        for ood, results in both.items():
            row, best = _by_ood(results, name, (*study.labels[name], set_title(ood)))
            if row is not None:
                rows.append(row)
                notes += [f"SoTA of {' '.join(study.labels[name])}: {best}."]
    if not rows:
        needs = f"{CELLS_NEEDED}, and tuning rows of both SVHN and Textures"
        command = f"{CELLS_COMMAND} --ood svhn --ood textures"
        left_out = [note for results in both.values() for note in troubles(results, PAPER_METHODS)]
        return MissingInputs("table8", title, needs, command, tuple(left_out))
    shown = [row.suite for row in rows]
    for results in both.values():
        notes += knowledge(study, results, PAPER_METHODS, shown)
        notes += troubles(results, PAPER_METHODS)
    words = (*SUITE_WORDS, "tuned with")
    columns = ("Uncal", "SoTA", "Energy")
    return TableArtifact("table8", title, words, columns, tuple(rows), tuple(dict.fromkeys(notes)))


def _by_ood(results: Results, suite: str, labels: tuple[str, ...]) -> tuple[Row | None, str]:
    """Return uncalibrated, best baseline and energy method, and the name of the baseline."""
    cells: Mapping[str, Cell | None] = {
        method: average_cell(results, suite, method, "ece") for method in PAPER_METHODS
    }
    known = {m: cell.value for m in BASELINES if (cell := cells[m]) is not None}
    if not known:
        return None, ""
    best = min(known, key=lambda method: known[method])
    shown = (cells["identity"], cells[best], cells["energy"])
    return Row(suite, labels, shown), METHOD_TITLES[best]
