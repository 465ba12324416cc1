"""The tables of the paper from benchmarks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.methods import PAPER_METHODS
from wildcal.metrics import METRICS, Estimate
from wildcal.report.paper.names import SET_TITLES, is_transformer, method_title
from wildcal.report.paper.published import Published, published_row
from wildcal.report.paper.study import FEW_SAMPLES, PAPER, Study
from wildcal.report.paper.variants import COUNTED, WITHOUT_OOD
from wildcal.tables import ABSENT, Cell, Column, Table, number, with_ranks

KEEP_CLASSES: Final = ("identity", "ts", "ets", "irm", "spline", "energy")
"""Methods that keep the predicted class."""
DETECTION: Final = {"ood_auroc": "AUROC", "ood_aupr_in": "AUPR-IN", "ood_aupr_out": "AUPR-OUT"}
NATURAL_SHIFTS: Final = ("imagenet-r", "imagenet-a", "imagenet-sketch")
CONDITIONS: Final = "a source test split and the same corruptions at severities 1 to 5"
EXTRACT: Final = "wildcal extract DATA --network NETWORK.safetensors -o SUITE"
_AVERAGE_NOTE: Final = (
    "Average over severity 0 and the means over corruption types at severities 1 to 5, in per cent."
)
_AUTHORS_NOTE: Final = (
    "IRM, IROvA and IROvATS are not normalized and predict their own argmax, SPLINE has zeros for"
    " other classes, as in the authors' code; --variants wildcal has the methods of this package."
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
    """A row before it is text."""

    suite: str
    labels: tuple[str, ...]
    values: dict[str, Estimate | None]
    """By method."""
    data_used: dict[str, str]
    winner: str | None = None
    """The best method, if it is significantly better than the second."""
    floor: float | None = None


def table1(study: Study, name: str = "table1", *, paper: bool = False) -> PaperTable | Missing:
    """Return average ECE under covariate shift (tables 1 and 9)."""
    methods, title = study.shown_methods, "Average ECE (%) under covariate shift."
    if name == "table9":
        methods = (*methods[:-1], WITHOUT_OOD, methods[-1])
        title = "Average ECE (%), with and without OOD samples in the calibration."
    rows = [_average_row(study, suite, "ece", methods) for suite in study.suites]
    return _table(study, name, title, methods, rows, paper=paper)


def table2(study: Study, *, paper: bool = False) -> PaperTable | Missing:
    """Return the average ECE with and without density-aware calibration."""
    methods = ("identity", "ets", "dac+ets", "spline", "dac+spline", "energy", "dac+energy")
    rows = [
        _average_row(study, name, "ece", methods, dac=True)
        for name, suite in study.suites.items()
        if suite.layers
    ]
    title = "Average ECE (%) with and without density-aware calibration (DAC)."
    needs = (f"{CONDITIONS}, and distances to training samples", f"{EXTRACT} --features")
    return _table(study, "table2", title, methods, rows, paper=paper, needs=needs)


def table3(study: Study, *, paper: bool = False) -> PaperTable | Missing:
    """Return the detection of Textures by the calibrated confidence."""
    rows = []
    for name in study.suites:
        results = study.results(name, ood="svhn")
        for metric, title in DETECTION.items():
            labels = (study.names[name].data, study.names[name].network, title)
            rows.append(_split_row(results, name, "textures-test", metric, labels, KEEP_CLASSES))
    title = "Detection of Textures by the calibrated confidence (%), higher is better."
    needs = ("calibration samples of SVHN and test samples of Textures", f"{EXTRACT} --ood svhn")
    heads = ("data set", "network", "metric")
    return _table(study, "table3", title, KEEP_CLASSES, rows, paper=paper, needs=needs, heads=heads)


def table4(study: Study, name: str = "table4", *, paper: bool = False) -> PaperTable | Missing:
    """Return the average KDE-ECE (table 4) or class-wise ECE (table 5)."""
    metric, title = ("kde_ece", "KDE-ECE") if name == "table4" else ("classwise_ece", "SCE")
    rows = [_average_row(study, suite, metric, study.shown_methods) for suite in study.suites]
    title = f"Average {title} (%) under covariate shift."
    return _table(study, name, title, study.shown_methods, rows, paper=paper)


def table6(study: Study, *, paper: bool = False) -> PaperTable | Missing:
    """Return the average ECE and KDE-ECE of vision transformers."""
    methods, rows = ("identity", "energy"), []
    for name in (n for n, suite in study.suites.items() if is_transformer(suite)):
        for metric, title in (("ece", "ECE"), ("kde_ece", "KDE-ECE")):
            row = _average_row(study, name, metric, methods)
            rows.append(row and replace(row, labels=(*row.labels, title)))
    needs = ("a suite of a vision transformer", "wildcal extract DATA --dataset imagenet"
             " --network vit_b_32.onnx -o SUITE")  # fmt: skip
    heads = ("data set", "network", "metric")
    title = "Vision transformers: average ECE and KDE-ECE (%)."
    return _table(study, "table6", title, methods, rows, paper=paper, needs=needs, heads=heads)


def table7(study: Study, *, paper: bool = False) -> PaperTable | Missing:
    """Return the ECE on ImageNet-R, -A and -Sketch."""
    rows = [
        _split_row(study.results(name), name, split.name, "ece",
                   (SET_TITLES[str(split.domain)], study.names[name].network), KEEP_CLASSES)
        for name, suite in study.suites.items()
        for split in suite.test
        if split.domain in NATURAL_SHIFTS
    ]  # fmt: skip
    extra = " ".join(f"--extra {name}" for name in NATURAL_SHIFTS)
    command = f"wildcal extract DATA --dataset imagenet --network NETWORK.onnx {extra} -o SUITE"
    needs = ("an ImageNet suite with test splits of ImageNet-R, -A or -Sketch", command)
    title = "ECE (%) under natural covariate shift."
    return _table(study, "table7", title, KEEP_CLASSES, rows, paper=paper, needs=needs)


def table8(study: Study, *, paper: bool = False) -> PaperTable | Missing:
    """Return the average ECE for two OOD sets in the calibration."""
    rows, best = [], []
    for name in study.suites:
        for ood in ("svhn", "textures"):
            row = _average_row(study, name, "ece", PAPER_METHODS, ood=ood)
            if row is None:
                continue
            known = {m: e.value for m in PAPER_METHODS[1:-1] if (e := row.values[m]) is not None}
            baseline = min(known, key=lambda method: known[method])
            values = {m: row.values[m] for m in ("identity", "energy")}
            values["sota"] = row.values[baseline]
            rows.append(replace(row, labels=(*row.labels, SET_TITLES[ood]), values=values))
            best.append(f"{row.labels[1]} {method_title(baseline)}")
    chosen = ", ".join(dict.fromkeys(best))
    note = f"SoTA: the baseline with the lowest value on the test sets ({chosen})."
    heads = ("data set", "network", "calibrated with")
    needs = (
        "calibration samples of both SVHN and Textures",
        f"{EXTRACT} --ood svhn --ood textures",
    )
    title = "Average ECE (%) by the OOD set in the calibration."
    return _table(study, "table8", title, ("identity", "sota", "energy"), rows, paper=paper,
                  needs=needs, heads=heads, notes=(note,))  # fmt: skip


def average_or_none(
    results: BenchmarkResults, suite: str, method: str, metric: str
) -> Estimate | None:
    """Return an average, None if the method failed or conditions are missing."""
    if method not in [m.name for m in results.suites[suite].methods]:
        return None
    average = results.average(suite, method, metric)
    return None if math.isnan(average.value) else average


def _average_row(
    study: Study, name: str, metric: str, methods: Sequence[str], *, ood: str = PAPER,
    dac: bool = False,
) -> Row | None:  # fmt: skip
    results = study.results(name, metric, ood=ood, dac=dac)
    if results is None or not results.has_severities(name):
        return None
    values = {method: average_or_none(results, name, method, metric) for method in methods}
    known = {method: e for method, e in values.items() if e is not None}
    if not known:
        return None
    if metric == "ece" and COUNTED in [m.name for m in results.suites[name].methods]:
        values[COUNTED] = average_or_none(results, name, COUNTED, metric)
    order = sorted(known, key=lambda method: known[method].value)
    winner: str | None = order[0]
    if len(order) > 1:
        gap = results.difference(name, order[0], order[1], metric)
        if gap.low is not None and not gap.is_significant:
            winner = None
        elif gap.low is None and study.is_pooled(name):
            winner = None
    floors = [e.floor for e in known.values() if e.floor is not None]
    floor = sum(floors) / len(floors) if floors else None
    labels = (study.names[name].data, study.names[name].network)
    return Row(name, labels, values, _used(results, name), winner, floor)


def _split_row(
    results: BenchmarkResults | None, name: str, split: str, metric: str, labels: tuple[str, ...],
    methods: Sequence[str],
) -> Row | None:  # fmt: skip
    if results is None:
        return None
    values = {method: results.estimate(name, method, split, metric) for method in methods}
    known = {method: e.value for method, e in values.items() if e is not None}
    if not known:
        return None
    sign = -1 if METRICS[metric].better == "higher" else 1
    winner = min(known, key=lambda method: sign * known[method])
    return Row(name, labels, values, _used(results, name), winner)


def _used(results: BenchmarkResults, suite: str) -> dict[str, str]:
    return {m.name: str(m.information) for m in results.suites[suite].methods}


def _table(
    study: Study, name: str, title: str, methods: Sequence[str], rows: Sequence[Row | None], *,
    paper: bool, needs: tuple[str, str] = (CONDITIONS, EXTRACT),
    heads: tuple[str, ...] = ("data set", "network"), notes: tuple[str, ...] = (),
) -> PaperTable | Missing:  # fmt: skip
    """Put rows together with the paper's and with notes."""
    found = [row for row in rows if row is not None]
    if not found:
        return Missing(name, *needs)
    titles = {method: _title(study, method) for method in methods}
    has_floor = any(row.floor is not None for row in found)
    columns = [*(Column(head, is_number=False) for head in heads), *map(Column, titles.values())]
    if has_floor:
        columns.append(Column("noise floor"))
    lines, records, errors, n_published = [], [], [], 0
    for row in found:
        cells = [_cell(row.values[m], study.intervals) for m in methods]
        if row.winner in methods:
            i = list(methods).index(str(row.winner))
            cells[i] = with_ranks([cells[i]], "lower")[0]
        lines.append((*map(Cell, row.labels), *cells, *([number(row.floor)] if has_floor else [])))
        own = str(study.suites[row.suite].model.get("name", row.labels[1]))  # not the --label
        published = published_row(name, (row.labels[0], own, *row.labels[2:])) if paper else None
        records += _records(row, titles, heads, published)
        if published is not None:
            n_published += 1
            lines.append(_published_line(published, row, list(titles.values()), has_floor))
            errors += [f"* {published.error}."] if published.error else []
    pooled = [
        str(study.names[s]) for s in dict.fromkeys(r.suite for r in found) if study.is_pooled(s)
    ]
    is_average = name not in ("table3", "table7")
    shown = {titles.get(m, m) for m in methods}
    used = {f"{_title(study, m)}: {row.data_used[m]}" for row in found[:1] for m in methods
            if "," in row.data_used.get(m, "").partition(" labels")[2]}  # fmt: skip
    all_notes = [
        *([_AVERAGE_NOTE] if is_average else []),
        *([_AUTHORS_NOTE] if study.authors and shown & {"IRM", "IROvA", "SPLINE"} else []),
        *_dagger_notes(study, found, methods),
        *([f"{_POOLED_NOTE}{'; '.join(pooled)}."] if pooled and is_average else []),
        *([_RANK_NOTE] if is_average and study.n_bootstrap else []),
        *([_INTERVAL_NOTE] if study.intervals else []),
        *notes,
        *([f"Data used beyond calibration labels: {'; '.join(sorted(used))}."] if used else []),
        *(["Rows marked (paper) are the paper's, of a network of the same family."]
          if n_published else []),
        *(["The paper has no row of the same data set and family of networks."]
          if paper and not n_published else []),
        *dict.fromkeys(errors),
    ]  # fmt: skip
    return PaperTable(
        name, Table(title, tuple(columns), tuple(lines), tuple(all_notes)), tuple(records)
    )


def _cell(e: Estimate | None, intervals: bool) -> Cell:
    return Cell(ABSENT) if e is None else number(e.value, e.interval if intervals else None)


def _title(study: Study, method: str) -> str:
    title = "SoTA" if method == "sota" else method_title(method)
    return f"{title}†" if method == "irovats" and study.authors else title


def _dagger_notes(study: Study, rows: Sequence[Row], methods: Sequence[str]) -> list[str]:
    if not study.authors or "irovats" not in methods:
        return []
    counted = [
        f"{row.labels[0]} {row.labels[1]} {100 * e.value:.2f}"
        for row in rows
        if (e := row.values.get(COUNTED)) is not None
    ]
    text = (
        "† The authors' ECE probably leaves confidences above 1 out of its last bin; so does this"
        " column."
    )
    return [text + (f" Counted there: {', '.join(counted)}." if counted else "")]


def _published_line(
    published: Published, row: Row, titles: Sequence[str], has_floor: bool
) -> tuple[Cell, ...]:
    mark = "*" if published.error else ""
    labels = [row.labels[0], f"{published.labels[1]} (paper){mark}", *row.labels[2:]]
    values = [published.values.get(title.rstrip("†")) for title in titles]
    cells = [number(value, percent=False, digits=2) for value in values]
    return (*map(Cell, labels), *cells, *([Cell(ABSENT)] if has_floor else []))


def _records(
    row: Row, titles: dict[str, str], heads: Sequence[str], published: Published | None
) -> list[dict[str, Any]]:
    """Return a record for each number, in per cent."""
    names = [head.replace(" ", "_") for head in heads]
    found = []
    for method, title in titles.items():
        e = row.values[method]
        record: dict[str, Any] = {"suite": row.suite, **dict(zip(names, row.labels, strict=True))}
        record |= {"method": title.rstrip("†")}
        for key in ("value", "low", "high", "floor"):
            value = None if e is None else getattr(e, key)
            record["noise_floor" if key == "floor" else key] = (
                None if value is None else 100 * value
            )
        record["is_best"] = method == row.winner
        record["data_used"] = row.data_used.get(method, "")
        record["paper"] = None if published is None else published.values.get(title.rstrip("†"))
        found.append(record)
    return found
