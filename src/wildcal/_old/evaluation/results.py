"""One results object: suite x method x split x metric, and what is read off it."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.errors import MissingExtraError
from wildcal._old.evaluation.behind import Behind, behind
from wildcal._old.evaluation.estimate import Estimate
from wildcal._old.evaluation.knew import Knew
from wildcal._old.metrics.interval import PairedDifference, paired_interval
from wildcal._old.metrics.registry import METRICS
from wildcal._old.tables import csv, html, text

if TYPE_CHECKING:
    from wildcal._old.evaluation.protocol.fitted import FittedMethod
    from wildcal._old.evaluation.protocol.observe import Observed

Types: TypeAlias = Collection[str] | None
"""Corruption types; None for all."""
CLEAN, LEVELS = 0, (1, 2, 3, 4, 5)
COLUMNS: Final = (
    *("suite", "method", "knew", "split", "shift", "corruption", "severity", "metric"),
    *("value", "low", "high", "noise_floor", "rows"),
)
"""The columns of the tidy table."""


@dataclass(frozen=True, slots=True)
class Record:
    """One metric of one method on one split of one suite: a row of the tidy table."""

    suite: str
    method: str
    knew: Knew
    """What the method knew when it was fitted."""
    split: str
    shift: str
    corruption: str | None
    severity: int | None
    metric: str
    estimate: Estimate

    @property
    def value(self) -> float:
        """The value."""
        return self.estimate.value

    @property
    def low(self) -> float | None:
        """Lower end of its interval."""
        return self.estimate.low

    @property
    def high(self) -> float | None:
        """Upper end of its interval."""
        return self.estimate.high

    @property
    def floor(self) -> float | None:
        """The value that a perfectly calibrated model would have; for the ECE only."""
        return self.estimate.floor

    def to_dict(self) -> dict[str, Any]:
        """Return a row of the tidy table, by `COLUMNS`."""
        e = self.estimate
        own = (self.suite, self.method, self.knew.words(), self.split, self.shift)
        place = (self.corruption, self.severity, self.metric)
        numbers = (e.value, e.low, e.high, e.floor, e.n)
        return dict(zip(COLUMNS, (*own, *place, *numbers), strict=True))


@dataclass(frozen=True, slots=True)
class Average(Estimate):
    """A metric by severity: the clean value, the mean over types at levels 1 to 5, and their mean.

    Severity 0 has weight 1/6 and so has each level; likewise of clean rows and named shifts.
    """

    levels: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Replicates:
    """Metrics of resampled images: by metric and split, shape (methods, n_boot)."""

    cells: Mapping[tuple[str, str], FloatArray]
    level: float
    n_boot: int


@dataclass(frozen=True, slots=True)
class SuiteResults:
    """What belongs to one suite and is no row of the table."""

    methods: tuple["FittedMethod", ...]
    ood: str | None
    """The out-of-distribution set that methods were tuned with."""
    failed: Mapping[str, str]
    """Methods that could not be fitted, with the reason."""
    replicates: Replicates | None = field(repr=False)
    tuned_types: tuple[str, ...] = ()
    """Corruption types that some of the methods were tuned on."""
    n_bins: int = 15
    observed: "Observed | None" = field(default=None, repr=False)
    """What a report draws, where the run was asked to keep it."""

    def index(self, method: str) -> int:
        """Return the place of a method."""
        return [m.name for m in self.methods].index(method)


@dataclass(frozen=True, slots=True)
class Results:
    """All records of a run; `suites` has what was fitted."""

    records: tuple[Record, ...] = field(repr=False)
    suites: Mapping[str, SuiteResults]
    skipped: Mapping[str, str]
    """Suites and splits that could not be used, with the reason."""
    _index: dict[tuple[str, str, str, str], Record] = field(init=False, repr=False)
    _groups: dict[tuple[str, str, str], list[Record]] = field(init=False, repr=False)
    _shifts: dict[str, dict[str, str | None]] = field(init=False, repr=False)
    """By suite, the shifted splits and the corruption of each."""

    def __post_init__(self) -> None:
        index = {(r.suite, r.method, r.split, r.metric): r for r in self.records}
        object.__setattr__(self, "_index", index)
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for record in self.records:
            groups.setdefault((record.suite, record.method, record.metric), []).append(record)
        object.__setattr__(self, "_groups", groups)
        shifts: dict[str, dict[str, str | None]] = {}
        for record in self.records:
            if record.shift == "covariate":
                shifts.setdefault(record.suite, {})[record.split] = record.corruption
        object.__setattr__(self, "_shifts", shifts)

    @property
    def metrics(self) -> list[str]:
        """The metrics that were measured, in the order of the registry."""
        found = {record.metric for record in self.records}
        return [name for name in METRICS if name in found]

    @property
    def primary(self) -> str:
        """The metric that methods are ranked by: the ECE, or the first that has a better side."""
        ranking = [m for m in self.metrics if METRICS[m].better and METRICS[m].needs != "ood"]
        return "ece" if "ece" in ranking or not ranking else ranking[0]

    def record(self, suite: str, method: str, split: str, metric: str) -> Record:
        """Return one row of the table, or raise a KeyError."""
        return self._index[suite, method, split, metric]

    def estimate(self, suite: str, method: str, split: str, metric: str) -> Estimate | None:
        """Return one number, or None where it was not measured."""
        record = self._index.get((suite, method, split, metric))
        return None if record is None else record.estimate

    def select(self, **wanted: object) -> list[Record]:
        """Return the records whose fields have these values.

        >>> Results((), {}, {}).select(metric="ece", severity=5)
        []
        """
        return [r for r in self.records if all(getattr(r, k) == v for k, v in wanted.items())]

    def average(
        self, suite: str, method: str, metric: str | None = None, *, types: Types = None
    ) -> Average:
        """Return a metric averaged as the paper does: (clean + Σ mean over types at a level) / 6.

        `types` are the corruptions to average over, by default all: for a method that was tuned on
        some of them, those it has not seen. Where shifts have names of their own, clean rows and
        each shift count alike. NaN where a suite lacks the clean test split or all
        cells of a level, or where a level lacks one of the types.
        """
        metric = metric or self.primary
        by_level = self._by_level(suite, method, metric, types)
        levels = tuple(_mean([r.value for r in group]) for group in by_level)
        floor = float(np.mean([_mean([_or_nan(r.floor) for r in group]) for group in by_level]))
        value = float(np.mean(levels))
        drawn = self.drawn(suite, method, metric, types=types)
        ends: tuple[float | None, float | None] = (None, None)
        replicates = self.suites[suite].replicates if suite in self.suites else None
        if drawn is not None and replicates is not None and not math.isnan(value):
            ends = METRICS[metric].interval(value, drawn, replicates.level, _or_zero(floor))
        return Average(
            value,
            *ends,
            floor=None if math.isnan(floor) else floor,
            n=sum(r.estimate.n for group in by_level for r in group),
            level=0.95 if replicates is None else replicates.level,
            levels=levels,
        )

    def difference(
        self, suite: str, a: str, b: str, metric: str | None = None, *, types: Types = None
    ) -> PairedDifference:
        """Return the average of a metric of method a minus that of b, with a paired interval.

        Both are resampled with the same images, in all cells.
        """
        metric = metric or self.primary
        drawn_a, drawn_b = (self.drawn(suite, method, metric, types=types) for method in (a, b))
        replicates = self.suites[suite].replicates
        if drawn_a is None or drawn_b is None or replicates is None:
            raise ValueError("there are no replicates; run the protocol with n_boot > 0.")
        values = [self.average(suite, method, metric, types=types).value for method in (a, b)]
        return paired_interval(values[0] - values[1], drawn_a - drawn_b, replicates.level)

    def drawn(
        self, suite: str, method: str, metric: str | None = None, *, types: Types = None
    ) -> FloatArray | None:
        """Return the average of one method on resampled images, None where there is none.

        Replicate by replicate the images are the same for all methods, and for all suites of the
        same images.
        """
        metric = metric or self.primary
        found = self.suites[suite]
        if found.replicates is None:
            return None
        row, cells = found.index(method), found.replicates.cells
        levels = [
            np.mean([cells[metric, r.split][row] for r in group], axis=0)
            for group in self._by_level(suite, method, metric, types)
            if group and (metric, group[0].split) in cells
        ]
        wanted = len(self.conditions(suite)) if self.has_names(suite) else 1 + len(LEVELS)
        return np.asarray(np.mean(levels, axis=0)) if len(levels) == wanted else None

    def has_levels(self, suite: str) -> bool:
        """Whether some shifts are corruptions of a severity."""
        return any(self._shifts.get(suite, {}).values())

    def has_names(self, suite: str) -> bool:
        """Whether there are shifts, and all have names of their own."""
        return bool(self._shifts.get(suite)) and not self.has_levels(suite)

    def conditions(self, suite: str) -> tuple[str, ...]:
        """Return what is shown: severities 0 to 5, or clean rows and each named shift."""
        if self.has_levels(suite):
            return tuple(str(level) for level in (CLEAN, *LEVELS))
        return ("clean", *self._shifts.get(suite, {}))

    def ranked(self, suite: str, metric: str | None = None) -> list["FittedMethod"]:
        """Return the methods of a suite, the best average first; then by the clean value."""
        metric = metric or self.primary
        sign = -1 if METRICS[metric].better == "higher" else 1

        def key(method: "FittedMethod") -> list[float]:
            average = self.average(suite, method.name, metric)
            values = (average.value, average.levels[0])
            # What could not be measured comes last.
            return [math.inf if math.isnan(v) else sign * v for v in values]

        return sorted(self.suites[suite].methods, key=key)

    def behind(
        self, suite: str, method: str, metric: str | None = None, *, best: str | None = None
    ) -> Behind:
        """Return how far a method is behind the best on average; `best` where that is known."""
        metric = metric or self.primary
        best = self.ranked(suite, metric)[0].name if best is None else best
        first, mine = (self.average(suite, name, metric) for name in (best, method))
        if math.isnan(first.value):
            return Behind(math.nan)
        if method == best:
            return Behind(0.0, is_best=True)
        return behind(
            mine.value,
            first.value,
            self.drawn(suite, method, metric),
            self.drawn(suite, best, metric),
            level=mine.level,
            higher_is_better=METRICS[metric].better == "higher",
        )

    def tuned_and_tested(self, suite: str) -> list[str]:
        """Return the corruptions in the tests that some methods were tuned on, other images."""
        tested = {record.corruption for record in self.select(suite=suite, shift="covariate")}
        return [kind for kind in self.suites[suite].tuned_types if kind in tested]

    def ood_splits(self, suite: str) -> list[str]:
        """Return the test splits of no class that methods were measured on."""
        found = self.select(suite=suite, shift="semantic")
        return list(dict.fromkeys(record.split for record in found))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        failed = {name: dict(suite.failed) for name, suite in self.suites.items()}
        records = [record.to_dict() for record in self.records]
        return {"records": records, "failed": failed, "skipped": dict(self.skipped)}

    def to_csv(self) -> str:
        """Return the table as CSV, numbers in full precision."""
        return csv.render(COLUMNS, (record.to_dict().values() for record in self.records))  # type: ignore[misc]

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame, a row for each record."""
        return frame([record.to_dict() for record in self.records], COLUMNS)

    def __str__(self) -> str:
        """Return a table for each suite, the best method first."""
        from wildcal._old.evaluation.suite_table import left_out, suite_table

        tables = [text.render(suite_table(self, name)) for name in self.suites]
        return "\n\n".join([*tables, *left_out(self)])

    def _repr_html_(self) -> str:
        """Return a table for each suite, the best method first, for notebooks.

        >>> Results((), {}, {})._repr_html_()
        '<p><small>No suite was measured.</small></p>'
        """
        from wildcal._old.evaluation.suite_table import left_out, suite_table

        tables = [html.render(suite_table(self, name)) for name in self.suites]
        return "".join(tables) + html.notes(left_out(self))

    def _by_level(self, suite: str, method: str, metric: str, wanted: Types) -> list[list[Record]]:
        """Return the records of severity 0 to 5; a level with the wrong types is left empty.

        Where shifts have names of their own, those of clean rows and of each shift.
        """
        mine = self._groups.get((suite, method, metric), [])
        clean = [r for r in mine if r.shift == "none"]
        if self.has_names(suite):
            named = [r for r in mine if r.shift == "covariate"]
            return [clean if len(clean) == 1 else [], *([r] for r in named)]
        if wanted is not None:
            mine = [r for r in mine if r.corruption in wanted]
        groups = [[r for r in mine if r.corruption and r.severity == s] for s in LEVELS]
        types = [{r.corruption for r in group} for group in groups]
        every = set().union(*types) if wanted is None else set(wanted)
        return [
            clean if len(clean) == 1 else [],
            *(g if kinds == every else [] for g, kinds in zip(groups, types, strict=True)),
        ]


def frame(rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> Any:
    """Return rows as a pandas DataFrame."""
    try:
        import pandas  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingExtraError(
            "to_pandas needs pandas. Install it with: pip install pandas"
        ) from error
    return pandas.DataFrame(list(rows), columns=list(columns))


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
