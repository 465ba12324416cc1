"""The claims of the paper, each with a verdict on every suite."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.splits import ood_set
from wildcal.metrics import METRICS, auroc
from wildcal.metrics.bootstrap import difference
from wildcal.plots.energy import negative_energy
from wildcal.report.paper.figures import softmax_confidence
from wildcal.report.paper.names import is_transformer
from wildcal.report.paper.study import Study
from wildcal.report.paper.tables import DETECTION, EXTRACT, KEEP_CLASSES, Missing, PaperTable
from wildcal.report.paper.variants import COUNTED, WITHOUT_OOD
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
    """A claim in one case: how far the claimed order holds, positive if it does."""

    suite: str
    case: str
    margin: float
    significant: bool | None = None
    """Whether the interval of the margin excludes 0; None without one."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the cases in which it is tested."""

    text: str
    place: str
    cases: Callable[[Study], Iterator[Case]]


def claims(study: Study, *, paper: bool = False) -> PaperTable | Missing:
    """Return the claims with counts of the cases in which they hold."""
    lines, records = [], []
    for claim in CLAIMS:
        found = list(claim.cases(study))
        if not found:
            continue
        holds = sum(case.margin > 0 for case in found)
        known = [case for case in found if case.significant is not None]
        ahead = sum(bool(c.significant) and c.margin > 0 for c in known)
        behind = sum(bool(c.significant) and c.margin < 0 for c in known)
        middle = 100 * float(np.median([case.margin for case in found]))
        counts = [str(ahead), str(behind)] if known else ["-", "-"]
        texts = (claim.text, claim.place, f"{holds} of {len(found)}", *counts, f"{middle:+.2f}")
        lines.append(tuple(map(Cell, texts)))
        records += [
            {"claim": claim.text, "place": claim.place, "suite": c.suite, "case": c.case,
             "margin": 100 * c.margin, "significant": c.significant}
            for c in found
        ]  # fmt: skip
    if not lines:
        return Missing("claims", "a suite with corrupted test splits", EXTRACT)
    heads = ("claim", "where")
    columns = (*(Column(head, is_number=False) for head in heads),
               *map(Column, ("holds", "ahead", "behind", "median margin")))  # fmt: skip
    names = "; ".join(str(study.names[name]) for name in study.suites)
    table = Table("Claims of the paper", columns, tuple(lines), (*_NOTES, f"Suites: {names}."))
    return PaperTable("claims", table, tuple(records))


def _others(results: BenchmarkResults, suite: str, among: Sequence[str] | None = None) -> list[str]:
    names = [m.name for m in results.suites[suite].methods]
    # IROvATS counts with all samples, if both forms were measured.
    left_out = {"energy", WITHOUT_OOD, *(["irovats"] if COUNTED in names else [])}
    names = [name for name in names if name not in left_out]
    return [name for name in names if among is None or name in among]


def _average_cases(
    metric: str, *, only: Callable[[Any], bool] = lambda suite: True,
    against: Sequence[str] | None = None,
) -> Callable[[Study], Iterator[Case]]:  # fmt: skip
    """Return the cases of: energy has a lower average than the best other method."""

    def cases(study: Study) -> Iterator[Case]:
        for name, suite in study.suites.items():
            results = study.results(name, metric) if only(suite) else None
            if results is None or not results.has_severities(name):
                continue
            others = _others(results, name) if against is None else list(against)
            best = min(others, key=lambda m: results.average(name, m, metric).value)
            d = results.difference(name, best, "energy", metric)
            yield Case(name, best, d.value, None if d.low is None else d.is_significant)

    return cases


def _cells(
    results: BenchmarkResults, suite: str, splits: Sequence[str], case: str, metric: str = "ece"
) -> Case:
    """Return how far energy is ahead of the best other method in the mean over some splits."""
    result = results.suites[suite]
    rows = {m.name: i for i, m in enumerate(result.methods)}
    among = KEEP_CLASSES if metric in DETECTION else None
    sign = -1.0 if METRICS[metric].better == "higher" else 1.0

    def mean(method: str) -> float:
        found = [results.estimate(suite, method, split, metric) for split in splits]
        return sign * float(np.mean([e.value for e in found if e is not None]))

    best = min(_others(results, suite, among), key=mean)
    if not result.replicates:
        return Case(suite, case, mean(best) - mean("energy"))
    drawn = np.mean([result.replicates[metric, split] for split in splits], axis=0) * sign
    d = difference(mean(best) - mean("energy"), drawn[rows[best]] - drawn[rows["energy"]])
    return Case(suite, case, d.value, d.is_significant)


def _severity_cases(levels: Sequence[int]) -> Callable[[Study], Iterator[Case]]:
    def cases(study: Study) -> Iterator[Case]:
        for name in study.suites:
            results = study.results(name)
            if results is None or not results.has_severities(name):
                continue
            for level in levels:
                splits = {
                    m.split: None for m in results.select(suite=name, metric="ece")
                    if (m.domain == "source" if level == 0 else m.severity == level)
                }  # fmt: skip
                if splits:
                    yield _cells(results, name, list(splits), f"severity {level}")

    return cases


def _type_cases(study: Study) -> Iterator[Case]:
    for name in study.suites:
        results = study.results(name)
        if results is not None and not study.is_pooled(name):
            splits = {m.split: None for m in results.select(suite=name, metric="ece", severity=5)}
            for split in splits:
                yield _cells(results, name, [split], split)


def _set_cases(study: Study) -> Iterator[Case]:
    """Yield the average with each OOD set against the best baseline."""
    for name in study.suites:
        for ood in ("svhn", "textures"):
            results = study.results(name, ood=ood)
            if results is not None and results.has_severities(name):
                best = min(
                    _others(results, name), key=lambda m: results.average(name, m, "ece").value
                )
                d = results.difference(name, best, "energy", "ece")
                yield Case(name, ood, d.value, None if d.low is None else d.is_significant)


def _dac_cases(study: Study) -> Iterator[Case]:
    for name, suite in study.suites.items():
        results = study.results(name, dac=True) if suite.layers else None
        if results is not None:
            for base in ("ets", "spline", "energy"):
                d = results.difference(name, base, f"dac+{base}", "ece")
                yield Case(name, base, d.value, None if d.low is None else d.is_significant)


def _ood_cases(metrics: Sequence[str]) -> Callable[[Study], Iterator[Case]]:
    def cases(study: Study) -> Iterator[Case]:
        for name in study.suites:
            results = study.results(name, ood="svhn")
            if results is None or "textures-test" not in results.ood_splits(name):
                continue
            for metric in metrics:
                yield _cells(results, name, ["textures-test"], METRICS[metric].title, metric)

    return cases


def _separation_cases(kind: str) -> Callable[[Study], Iterator[Case]]:
    """Return the cases of: energy has a higher AUROC than the softmax confidence."""

    def cases(study: Study) -> Iterator[Case]:
        for name, suite in study.suites.items():
            source = next((s for s in suite.test if s.is_source), None)
            svhn = next((s for s in suite.test if s.is_ood and ood_set(s.name) == "svhn"), None)
            if source is None or (kind == "ood" and svhn is None):
                continue
            z, first = source.logits, source.logits.argmax(axis=1) == source.y
            if kind == "ood" and svhn is not None:
                z = np.concatenate([source.logits, svhn.logits])
                first = np.arange(len(z)) < source.n_samples
            yield Case(name, kind, auroc(first, negative_energy(z))
                       - auroc(first, softmax_confidence(z)))  # fmt: skip

    return cases


def _energy_cases(statistic: Callable[[Any], float]) -> Callable[[Study], Iterator[Case]]:
    """Return a statistic of the negative energy at severity 5 minus that at severity 0."""

    def cases(study: Study) -> Iterator[Case]:
        for name, suite in study.suites.items():
            source = [s.logits for s in suite.test if s.is_source]
            worst = [s.logits for s in suite.test if s.severity == 5 and s.is_shifted]
            if source and worst:
                first, last = (negative_energy(np.concatenate(z)) for z in (source, worst))
                yield Case(name, "5 minus 0", (statistic(last) - statistic(first)) / 100)

    return cases


CLAIMS: Final = (
    Claim("Energy has the lowest average ECE", "Table 1", _average_cases("ece")),
    Claim("Energy has the lowest average KDE-ECE", "Table 4", _average_cases("kde_ece")),
    Claim("Energy has the lowest average SCE", "Table 5", _average_cases("classwise_ece")),
    Claim("Energy has a lower ECE than no calibration on transformers", "Table 6",
          _average_cases("ece", only=is_transformer, against=("identity",))),
    Claim("Energy has the lowest average ECE with either OOD set", "Table 8", _set_cases),
    Claim("OOD samples lower the ECE of energy", "Table 9",
          _average_cases("ece", against=(WITHOUT_OOD,))),
    Claim("DAC lowers the ECE of ETS, SPLINE and energy", "Table 2", _dac_cases),
    Claim("Energy separates correct from incorrect better than softmax", "Fig. 1",
          _separation_cases("right")),
    Claim("Energy separates in-distribution samples from SVHN better than softmax", "Fig. 1",
          _separation_cases("ood")),
    Claim("Negative energies fall under shift (median, severity 5 minus 0, as energy)", "Fig. 3",
          _energy_cases(lambda e: -float(np.median(e)))),
    Claim("The variance of energies is higher under shift (standard deviation)", "Fig. 3",
          _energy_cases(lambda e: float(np.std(e)))),
    Claim("Energy has the lowest ECE on in-distribution data", "Fig. 4", _severity_cases((0,))),
    Claim("Energy has the lowest ECE at every severity 1 to 5", "Fig. 4",
          _severity_cases((1, 2, 3, 4, 5))),
    Claim("Energy has the lowest ECE on most corruption types", "Fig. 5", _type_cases),
    Claim("Energy has the lowest confidence on Textures", "Fig. 6",
          _ood_cases(("ood_mean_confidence",))),
    Claim("Energy detects OOD samples best", "Table 3", _ood_cases(tuple(DETECTION))),
)  # fmt: skip
