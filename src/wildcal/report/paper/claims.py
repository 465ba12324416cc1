"""The claims of the paper, tested on every suite."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from wildcal.metrics import METRICS, auroc
from wildcal.metrics.bootstrap import Difference
from wildcal.plots.energy import negative_energy
from wildcal.report.paper.names import is_transformer
from wildcal.report.paper.study import (
    PAPER,
    PooledSplit,
    Study,
    is_pooled,
    margin_of_energy,
    other_methods,
    softmax_confidence,
    source_split,
    split_names,
    splits_at,
    svhn_split,
)
from wildcal.report.paper.tables import DETECTION, EXTRACT, KEEP_CLASSES, Missing, PaperTable
from wildcal.report.paper.variants import WITHOUT_OOD
from wildcal.tables import Cell, Column, Table

_NOTES: Final = (
    "Cases: suites, or suites times severities, corruptions, sets or metrics. Holds: by value."
    " Ahead and behind: of these, cases whose paired 95 % interval excludes 0; no number where"
    " cases have no intervals.",
    "Median margin: over the cases, of what the claim compares, in points or in units of energy."
    " IROvATS is counted with confidences above 1 in the last bin.",
)


@dataclass(frozen=True)
class Case:
    """A claim in one case."""

    suite: str
    case: str
    margin: Difference
    """How far the claimed order holds, positive if it does."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the cases in which it is tested."""

    text: str
    place: str
    cases: Callable[[Study], Iterator[Case]]


def claims(study: Study) -> PaperTable | Missing:
    """Return the claims with counts of the cases in which they hold."""
    lines, records = [], []
    for claim in CLAIMS:
        found = [case for case in claim.cases(study) if not math.isnan(case.margin.value)]
        if not found:
            continue
        margins = [case.margin for case in found]
        significant = [d.value for d in margins if d.is_significant]
        counts = [str(sum(v > 0 for v in significant)), str(sum(v < 0 for v in significant))]
        if all(d.low is None for d in margins):
            counts = ["-", "-"]
        holds = f"{sum(d.value > 0 for d in margins)} of {len(found)}"
        middle = f"{100 * float(np.median([d.value for d in margins])):+.2f}"
        lines.append(tuple(map(Cell, (claim.text, claim.place, holds, *counts, middle))))
        records += [
            {"claim": claim.text, "place": claim.place, "suite": c.suite, "case": c.case,
             "margin": 100 * c.margin.value,
             "significant": None if c.margin.low is None else c.margin.is_significant}
            for c in found
        ]  # fmt: skip
    if not lines:
        return Missing("claims", "a suite with corrupted test splits", EXTRACT)
    heads = ("holds", "ahead", "behind", "median margin")
    columns = (Column("claim", False), Column("where", False), *map(Column, heads))
    names = "; ".join(str(study.names[name]) for name in study.suites)
    table = Table("Claims of the paper", columns, tuple(lines), (*_NOTES, f"Suites: {names}."))
    return PaperTable("claims", table, tuple(records))


def _averages(
    study: Study, metric: str = "ece", *, only: Callable[[Any], bool] = lambda suite: True,
    against: Sequence[str] = (), sets: Sequence[str] = (PAPER,),
) -> Iterator[Case]:  # fmt: skip
    """Yield the averages of energy and the best other method, for each suite and OOD set."""
    for name, suite in study.suites.items():
        for ood in sets if only(suite) else ():
            results = study.results(name, metric, ood=ood)
            if results is None or not results.has_severities(name):
                continue
            others = against or other_methods(results, name)
            best = min(others, key=lambda m: results.average(name, m, metric).value)
            gap = results.difference(name, best, "energy", metric)
            yield Case(name, best if ood == PAPER else ood, gap)


def _with_dac(study: Study) -> Iterator[Case]:
    for name, results in study.each(dac=True, only=lambda suite: suite.layers):
        for base in ("ets", "spline", "energy"):
            yield Case(name, base, results.difference(name, base, f"dac+{base}", "ece"))


def _by_severity(study: Study, levels: Sequence[int]) -> Iterator[Case]:
    for name, results in study.each():
        for level in levels if results.has_severities(name) else ():
            gap = margin_of_energy(results, name, split_names(results, name, level))
            yield Case(name, f"severity {level}", gap)


def _by_type(study: Study) -> Iterator[Case]:
    for name, results in study.each(only=lambda suite: not is_pooled(suite)):
        for split in split_names(results, name, 5):
            yield Case(name, split, margin_of_energy(results, name, [split]))


def _on_textures(study: Study, metrics: Sequence[str], among: Sequence[str] = ()) -> Iterator[Case]:
    for name, results in study.each(ood="svhn"):
        if "textures-test" in results.ood_splits(name):
            others = [m for m in other_methods(results, name) if not among or m in among]
            for metric in metrics:
                gap = margin_of_energy(results, name, ["textures-test"], others, metric)
                yield Case(name, METRICS[metric].title, gap)


def _separation(study: Study, *, svhn: bool) -> Iterator[Case]:
    """Yield the AUROC of the energy minus that of the softmax confidence.

    It is that of correct against incorrect samples, or of all against SVHN.
    """
    for name, suite in study.suites.items():
        source, ood = source_split(suite), svhn_split(suite)
        if source is None or (svhn and ood is None):
            continue
        z, first = source.logits, source.logits.argmax(axis=1) == source.y
        if svhn and ood is not None:
            z = np.concatenate([source.logits, ood.logits])
            first = np.arange(len(z)) < source.n_samples
        gap = auroc(first, negative_energy(z)) - auroc(first, softmax_confidence(z))
        yield Case(name, "ood" if svhn else "right", Difference(gap))


def _energies(study: Study, statistic: Callable[[Any], float]) -> Iterator[Case]:
    """Yield a statistic of the negative energy at severity 5 minus that at severity 0."""
    for name, suite in study.suites.items():
        source, worst = splits_at(suite, 0), splits_at(suite, 5)
        if source and worst:
            first, last = (negative_energy(PooledSplit(s).logits) for s in (source, worst))
            yield Case(name, "5 minus 0", Difference((statistic(last) - statistic(first)) / 100))


CLAIMS: Final = (
    Claim("Energy has the lowest average ECE", "Table 1", _averages),
    Claim("Energy has the lowest average KDE-ECE", "Table 4", partial(_averages, metric="kde_ece")),
    Claim("Energy has the lowest average SCE", "Table 5",
          partial(_averages, metric="classwise_ece")),
    Claim("Energy has a lower ECE than no calibration on transformers", "Table 6",
          partial(_averages, only=is_transformer, against=("identity",))),
    Claim("Energy has the lowest average ECE with either OOD set", "Table 8",
          partial(_averages, sets=("svhn", "textures"))),
    Claim("OOD samples lower the ECE of energy", "Table 9",
          partial(_averages, against=(WITHOUT_OOD,))),
    Claim("DAC lowers the ECE of ETS, SPLINE and energy", "Table 2", _with_dac),
    Claim("Energy separates correct from incorrect better than softmax", "Fig. 1",
          partial(_separation, svhn=False)),
    Claim("Energy separates in-distribution samples from SVHN better than softmax", "Fig. 1",
          partial(_separation, svhn=True)),
    Claim("Negative energies fall under shift (median, severity 5 minus 0, as energy)", "Fig. 3",
          partial(_energies, statistic=lambda e: -float(np.median(e)))),
    Claim("The variance of energies is higher under shift (standard deviation)", "Fig. 3",
          partial(_energies, statistic=lambda e: float(np.std(e)))),
    Claim("Energy has the lowest ECE on in-distribution data", "Fig. 4",
          partial(_by_severity, levels=(0,))),
    Claim("Energy has the lowest ECE at every severity 1 to 5", "Fig. 4",
          partial(_by_severity, levels=(1, 2, 3, 4, 5))),
    Claim("Energy has the lowest ECE on most corruption types", "Fig. 5", _by_type),
    Claim("Energy has the lowest confidence on Textures", "Fig. 6",
          partial(_on_textures, metrics=("ood_mean_confidence",))),
    Claim("Energy detects OOD samples best", "Table 3",
          partial(_on_textures, metrics=tuple(DETECTION), among=KEEP_CLASSES)),
)  # fmt: skip
