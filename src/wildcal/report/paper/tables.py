"""The tables of the paper from benchmarks."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.methods import PAPER_METHODS
from wildcal.evaluation.results import as_loss, estimate_columns
from wildcal.io.suite import Suite
from wildcal.metrics import Estimate
from wildcal.report.paper.names import SET_TITLES, is_transformer, method_title
from wildcal.report.paper.published import published_row
from wildcal.report.paper.study import FEW_SAMPLES, PAPER, WITH_DAC, Study, is_pooled
from wildcal.report.paper.variants import COUNTED
from wildcal.tables import ABSENT, Cell, Column, Table, number

KEEP_CLASSES: Final = ("identity", "ts", "ets", "irm", "spline", "energy")
"""Methods that keep the predicted class."""
SOTA: Final = "sota"
"""The column of the best baseline."""
DETECTION: Final = {"ood_auroc": "AUROC", "ood_aupr_in": "AUPR-IN", "ood_aupr_out": "AUPR-OUT"}
CONDITIONS: Final = "a source test split and the same corruptions at severities 1 to 5"
EXTRACT: Final = "wildcal extract DATA --network NETWORK.safetensors -o SUITE"
TRANSFORMER: Final = (
    "a suite of a vision transformer",
    "wildcal extract DATA --dataset imagenet --network vit_b_32.onnx -o SUITE",
)
TEXTURES: Final = (
    "calibration samples of SVHN and test samples of Textures",
    f"{EXTRACT} --ood svhn",
)
_AVERAGE_NOTE: Final = (
    "Average over severity 0 and the means over corruption types at severities 1 to 5, in per cent."
)
_AUTHORS_NOTE: Final = (
    "IRM, IROvA and IROvATS are not normalized and predict their own argmax, SPLINE has zeros for"
    " other classes, as in the authors' code; --variants wildcal has the methods of this package."
)
_DAGGER_NOTE: Final = (
    "† The authors' ECE probably leaves confidences above 1 out of its last bin; so does this"
    " column."
)
_POOLED_NOTE: Final = (
    "Corruption types of a severity are pooled where conditions have fewer than"
    f" {FEW_SAMPLES} samples: "
)
_INTERVAL_NOTE: Final = (
    "Intervals: 95 %, bootstrap over images; those of the ECE are corrected for its upward bias."
)
_RANK_NOTE: Final = (
    "Bold: lowest of the row, where the paired 95 % interval of its difference to the second"
    " excludes 0."
)


@dataclass(frozen=True)
class PaperTable:
    """A table, and its numbers as records in full precision."""

    name: str
    table: Table
    records: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Missing:
    """What a table or figure needs and no suite has, and the command that makes it."""

    name: str
    needs: str
    command: str

    def __str__(self) -> str:
        return f"{self.name} needs {self.needs}. Try: {self.command}"


@dataclass(frozen=True)
class Row:
    """The numbers of one row."""

    suite: str
    labels: dict[str, str]
    """Data set, network and, in some tables, metric or OOD set, by the head of the column."""
    values: dict[str, Estimate]
    """By method."""
    data_used: dict[str, str]
    winner: str | None
    """The best method, if it is significantly better than the second."""
    floor: float | None
    baseline: str | None
    """The best method besides energy and no calibration."""


@dataclass(frozen=True)
class Spec:
    """What a table of the paper shows: rows of suites, OOD sets, metrics and splits."""

    title: str
    needs: tuple[str, str] = (CONDITIONS, EXTRACT)
    methods: tuple[str, ...] = ()
    """Without any, all methods that the study shows."""
    metrics: Mapping[str, str] = field(default_factory=lambda: {"ece": "ECE"})
    """Titles of metrics by name."""
    suites: Callable[[Suite], object] = lambda suite: True
    """Which suites have a row."""
    ood_sets: tuple[str, ...] = (PAPER,)
    """What methods are calibrated with."""
    splits: tuple[str, ...] = ()
    """Names or domains of single test splits; without them, values are averages."""
    dac: bool = False


SPECS: Final = {
    "table1": Spec("Average ECE (%) under covariate shift."),
    "table2": Spec(
        "Average ECE (%) with and without density-aware calibration (DAC).",
        (f"{CONDITIONS}, and distances to training samples", f"{EXTRACT} --features"),
        WITH_DAC, suites=lambda suite: suite.layers, dac=True,
    ),
    "table3": Spec(
        "Detection of Textures by the calibrated confidence (%), higher is better.", TEXTURES,
        KEEP_CLASSES, DETECTION, ood_sets=("svhn",), splits=("textures-test",),
    ),
    "table4": Spec("Average KDE-ECE (%) under covariate shift.", metrics={"kde_ece": "KDE-ECE"}),
    "table5": Spec("Average SCE (%) under covariate shift.", metrics={"classwise_ece": "SCE"}),
    "table6": Spec(
        "Vision transformers: average ECE and KDE-ECE (%).", TRANSFORMER, ("identity", "energy"),
        {"ece": "ECE", "kde_ece": "KDE-ECE"}, suites=is_transformer,
    ),
    "table7": Spec(
        "ECE (%) under natural covariate shift.",
        ("an ImageNet suite with test splits of ImageNet-R, -A or -Sketch",
         "wildcal extract DATA --dataset imagenet --network NETWORK.onnx --extra imagenet-r"
         " --extra imagenet-a --extra imagenet-sketch -o SUITE"),
        KEEP_CLASSES, splits=("imagenet-r", "imagenet-a", "imagenet-sketch"),
    ),
    "table8": Spec(
        "Average ECE (%) by the OOD set in the calibration.",
        ("calibration samples of both SVHN and Textures", f"{EXTRACT} --ood svhn --ood textures"),
        ("identity", SOTA, "energy"), ood_sets=("svhn", "textures"),
    ),
    "table9": Spec("Average ECE (%), with and without OOD samples in the calibration."),
}  # fmt: skip


def paper_table(study: Study, name: str, *, paper: bool = False) -> PaperTable | Missing:
    """Return a table of the paper, with `paper` also the paper's rows beside those of suites."""
    spec = SPECS[name]
    shown = study.with_and_without_ood if name == "table9" else study.shown_methods
    titles = {m: method_title(m) for m in spec.methods or shown}
    rows = list(_rows(study, spec, list(titles)))
    if not rows:
        return Missing(name, *spec.needs)
    lines, published = [], []
    records: list[dict[str, Any]] = []
    for row in rows:
        lines.append(_cells(row, titles, study))
        data, network, *more = row.labels.values()
        own = str(study.suites[row.suite].model.get("name", network))  # not the --label
        found = published_row(name, (data, own, *more)) if paper else None
        records += _records(row, titles, {} if found is None else found.values)
        if found is not None:
            published.append(found)
            labels = (data, f"{found.labels[1]} (paper){'*' * bool(found.error)}", *more)
            cells = [number(found.values.get(t), percent=False, digits=2) for t in titles.values()]
            lines.append((*map(Cell, labels), *cells, Cell(ABSENT)))
    notes = _notes(study, spec, rows, titles)
    if published:
        notes.append("Rows marked (paper) are the paper's, of a network of the same family.")
        notes += dict.fromkeys(f"* {row.error}." for row in published if row.error)
    elif paper:
        notes.append("The paper has no row of the same data set and family of networks.")
    dagger = {"irovats": "†"} if study.authors else {}
    columns = [Column(head, is_number=False) for head in rows[0].labels]
    columns += [Column(f"{title}{dagger.get(m, '')}") for m, title in titles.items()]
    columns.append(Column("noise floor"))
    table = Table(spec.title, tuple(columns), tuple(lines), tuple(notes))
    if all(row.floor is None for row in rows):
        table = table.select(table.heads[:-1])
    return PaperTable(name, table, tuple(records))


def _rows(study: Study, spec: Spec, methods: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each suite, OOD set and metric, or for each of their splits."""
    chosen = [name for name, suite in study.suites.items() if spec.suites(suite)]
    for name, ood, metric in product(chosen, spec.ood_sets, spec.metrics):
        results = study.results(name, metric, ood=ood, dac=spec.dac)
        if results is None:
            continue
        data = study.names[name].data
        splits: dict[str | None, str] = {
            s.name: SET_TITLES.get(str(s.domain), data)
            for s in study.suites[name].test
            if s.name in spec.splits or s.domain in spec.splits
        }
        if not spec.splits and results.has_severities(name):
            splits = {None: data}
        for split, shown in splits.items():
            labels = {"data set": shown, "network": study.names[name].network}
            if len(spec.metrics) > 1:
                labels["metric"] = spec.metrics[metric]
            if len(spec.ood_sets) > 1:
                labels["calibrated with"] = SET_TITLES[ood]
            row = _row(study, results, name, metric, methods, labels, split)
            if row is not None:
                yield row


def _row(
    study: Study, results: BenchmarkResults, suite: str, metric: str, methods: Sequence[str],
    labels: dict[str, str], split: str | None,
) -> Row | None:  # fmt: skip
    """Return the averages over conditions, or the values on a split; None if there are none."""
    fitted = results.suites[suite].methods
    values: dict[str, Estimate] = {}
    for m in fitted:
        e: Estimate | None = results.average(suite, m.name, metric)
        if split is not None:
            e = results.estimate(suite, m.name, split, metric)
        if e is not None and not math.isnan(e.value):
            values[m.name] = e
    ranked = [m for m in (PAPER_METHODS if SOTA in methods else methods) if m in values]
    if not ranked:
        return None
    ranked.sort(key=lambda m: as_loss(metric, values[m].value))
    winner: str | None = ranked[0]
    floor = None
    if split is None:
        floors = [f for m in ranked if (f := values[m].floor) is not None]
        floor = sum(floors) / len(floors) if floors else None
    if split is None and len(ranked) > 1:
        gap = results.difference(suite, ranked[0], ranked[1], metric)
        is_clear = gap.is_significant if gap.interval else not is_pooled(study.suites[suite])
        winner = ranked[0] if is_clear else None
    baseline = next((m for m in ranked if m not in ("identity", "energy")), None)
    if baseline is not None:
        values[SOTA] = values[baseline]
    used = {m.name: str(m.information) for m in fitted}
    return Row(suite, labels, values, used, winner, floor, baseline)


def _cells(row: Row, methods: Iterable[str], study: Study) -> tuple[Cell, ...]:
    """Return the cells of a row: labels, methods, noise floor."""
    cells = [Cell(label) for label in row.labels.values()]
    for m in methods:
        e = row.values.get(m, Estimate(math.nan))
        cell = number(e.value, e.interval if study.intervals else None)
        cells.append(replace(cell, is_best=m == row.winner))
    return (*cells, number(row.floor))


def _notes(study: Study, spec: Spec, rows: Sequence[Row], methods: Iterable[str]) -> list[str]:
    """Return the notes that apply to a table."""
    pooled = study.pooled_names(dict.fromkeys(row.suite for row in rows))
    counted = ", ".join(
        f"{row.labels['data set']} {row.labels['network']} {100 * row.values[COUNTED].value:.2f}"
        for row in rows
        if COUNTED in row.values
    )
    best = dict.fromkeys(
        f"{row.labels['network']} {method_title(row.baseline or '')}" for row in rows
    )
    used = {
        f"{method_title(m)}: {data}"
        for m in methods
        if "," in (data := rows[0].data_used.get(m, "")).partition(" labels")[2]
    }
    are_averages = not spec.splits
    notes = {
        _AVERAGE_NOTE: are_averages,
        _AUTHORS_NOTE: study.authors and {"irm", "irova", "spline"} & set(methods),
        f"{_DAGGER_NOTE}{f' Counted there: {counted}.' if counted else ''}":
            study.authors and "irovats" in methods,
        f"{_POOLED_NOTE}{pooled}.": pooled and are_averages,
        _RANK_NOTE: study.n_bootstrap and are_averages,
        _INTERVAL_NOTE: study.intervals,
        f"SoTA: the baseline with the lowest value on the test sets ({', '.join(best)}).":
            SOTA in methods,
        f"Data used beyond calibration labels: {'; '.join(sorted(used))}.": used,
    }  # fmt: skip
    return [note for note, applies in notes.items() if applies]


def _records(
    row: Row, titles: Mapping[str, str], published: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    """Yield a record for each number, in per cent."""
    labels = {head.replace(" ", "_"): label for head, label in row.labels.items()}
    for method, title in titles.items():
        e = row.values.get(method)
        numbers = {} if e is None else estimate_columns(e)
        percent = {key: 100 * v for key, v in numbers.items() if v is not None}
        yield {
            "suite": row.suite,
            **labels,
            "method": title,
            **{key: percent.get(key) for key in ("value", "low", "high", "noise_floor")},
            "is_best": method == row.winner,
            "data_used": row.data_used.get(method, ""),
            "paper": published.get(title),
        }
