"""The tidy table of a run, and the averages that the paper's tables show."""

import csv
import io
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import TypeAlias

import numpy as np

from wildcal.core.arrays import FloatArray
from wildcal.evaluation.html import html_notes, html_table, number
from wildcal.evaluation.protocol.fitted import FittedMethod
from wildcal.metrics.interval import PairedDifference, basic_interval

Types: TypeAlias = Collection[str] | None
"""Corruption types; None for all."""
CLEAN, LEVELS = 0, (1, 2, 3, 4, 5)
_CAPTION = (
    "In percent. Average: of clean rows (0) and the means over corruption types at severity 1 to 5;"
    " the lowest first. Noise floor: the average of a perfectly calibrated model. Knew: what the"
    " method used."
)
_STRANGERS = {"mean_confidence": "confidence on", "ood_auroc": "AUROC against"}
"""What is shown of a set of other classes."""


@dataclass(frozen=True, slots=True)
class Record:
    """One metric of one method on one split of one suite: a row of the tidy table."""

    suite: str
    method: str
    knew: str
    """What the method knew when it was fitted."""
    split: str
    shift: str
    corruption: str | None
    severity: int | None
    metric: str
    value: float
    low: float | None
    high: float | None
    noise_floor: float | None
    """The value that a perfectly calibrated model would have; for ECE only."""
    rows: int


@dataclass(frozen=True, slots=True)
class Average:
    """A metric by severity: the clean value, the mean over types at levels 1 to 5, and their mean.

    Severity 0 has weight 1/6 and so has each level.
    """

    levels: tuple[float, ...]
    value: float
    low: float | None = None
    high: float | None = None
    noise_floor: float | None = None

    @property
    def excess(self) -> float:
        """The value beyond its noise floor."""
        return float("nan") if self.noise_floor is None else self.value - self.noise_floor


@dataclass(frozen=True, slots=True)
class Replicates:
    """ECE of resampled images: for each cell, shape (methods, n_boot)."""

    cells: Mapping[str, FloatArray]
    level: float


@dataclass(frozen=True, slots=True)
class SuiteResults:
    """What belongs to one suite and is no row of the table."""

    methods: tuple[FittedMethod, ...]
    ood: str | None
    """The out-of-distribution set that methods were tuned with."""
    failed: Mapping[str, str]
    """Methods that could not be fitted, with the reason."""
    replicates: Replicates | None = field(repr=False)
    tuned_types: tuple[str, ...] = ()
    """Corruption types that some of the methods were tuned on."""

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

    def __post_init__(self) -> None:
        index = {(r.suite, r.method, r.split, r.metric): r for r in self.records}
        object.__setattr__(self, "_index", index)

    def record(self, suite: str, method: str, split: str, metric: str) -> Record:
        """Return one row of the table, or raise a KeyError."""
        return self._index[suite, method, split, metric]

    def select(self, **wanted: object) -> list[Record]:
        """Return the records whose fields have these values.

        >>> Results((), {}, {}).select(metric="ece", severity=5)
        []
        """
        return [r for r in self.records if all(getattr(r, k) == v for k, v in wanted.items())]

    def average(
        self, suite: str, method: str, metric: str = "ece", *, types: Types = None
    ) -> Average:
        """Return a metric averaged as the paper does: (clean + Σ mean over types at a level) / 6.

        `types` are the corruptions to average over, by default all: for a method that was tuned on
        some of them, those it has not seen. NaN where a suite lacks the clean test split or all
        cells of a level, or where a level lacks one of the types.
        """
        by_level = self._by_level(suite, method, metric, types)
        levels = tuple(_mean([r.value for r in group]) for group in by_level)
        floors = [
            _mean([np.nan if r.noise_floor is None else r.noise_floor for r in group])
            for group in by_level
        ]
        drawn = self.drawn(suite, method, types=types) if metric == "ece" else None
        interval = None
        if drawn is not None and not np.isnan(np.mean(levels)):
            replicates = self.suites[suite].replicates
            assert replicates is not None  # drawn looked
            interval = basic_interval(float(np.mean(levels)), drawn, replicates.level, 0, 1)
        floor = float(np.mean(floors))
        return Average(
            levels=levels,
            value=float(np.mean(levels)),
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            noise_floor=None if np.isnan(floor) else floor,
        )

    def difference(self, suite: str, a: str, b: str, *, types: Types = None) -> PairedDifference:
        """Return the average ECE of method a minus that of b, with a paired interval.

        Both are resampled with the same images, in all cells.
        """
        drawn_a, drawn_b = (self.drawn(suite, method, types=types) for method in (a, b))
        if drawn_a is None or drawn_b is None:
            raise ValueError("there are no replicates; run the protocol with n_boot > 0.")
        averages = [self.average(suite, method, types=types).value for method in (a, b)]
        value = averages[0] - averages[1]
        drawn = drawn_a - drawn_b
        replicates = self.suites[suite].replicates
        assert replicates is not None
        interval = basic_interval(value, drawn, replicates.level, -1, 1)
        reflected = 2 * value - drawn
        better = float(np.mean(reflected < 0) + np.mean(reflected == 0) / 2)
        return PairedDifference(**asdict(interval), probability_a_better=better)

    def drawn(self, suite: str, method: str, *, types: Types = None) -> FloatArray | None:
        """Return the average ECE of one method on resampled images, None where there is none.

        Replicate by replicate the images are the same for all methods, and for all suites of the
        same images.
        """
        found = self.suites[suite]
        if found.replicates is None:
            return None
        row = found.index(method)
        levels = [
            np.mean([found.replicates.cells[r.split][row] for r in group], axis=0)
            for group in self._by_level(suite, method, "ece", types)
            if group
        ]
        return np.asarray(np.mean(levels, axis=0)) if len(levels) == 1 + len(LEVELS) else None

    def ranked(self, suite: str) -> list[FittedMethod]:
        """Return the methods of a suite, lowest average ECE first; then by clean ECE."""

        def key(method: FittedMethod) -> list[float]:
            average = self.average(suite, method.name)
            # What could not be measured comes last.
            return [math.inf if math.isnan(v) else v for v in (average.value, average.levels[0])]

        return sorted(self.suites[suite].methods, key=key)

    def tuned_and_tested(self, suite: str) -> list[str]:
        """Return the corruptions in the tests that some methods were tuned on, other images."""
        tested = {record.corruption for record in self.select(suite=suite, shift="covariate")}
        return [kind for kind in self.suites[suite].tuned_types if kind in tested]

    def to_csv(self) -> str:
        """Return the table as CSV, numbers in full precision."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(f.name for f in fields(Record))
        writer.writerows(astuple(record) for record in self.records)
        return text.getvalue()

    def _repr_html_(self) -> str:
        """Return a table for each suite, the method with the lowest average first, for notebooks.

        >>> Results((), {}, {})._repr_html_()
        '<p><small>No suite was measured.</small></p>'
        """
        tables = [self._suite_html(name) for name in self.suites]
        left_out = [f"{name} was left out: {reason}" for name, reason in self.skipped.items()]
        if not tables:
            left_out.insert(0, "No suite was measured.")
        return "".join(tables) + html_notes(left_out)

    def _suite_html(self, suite: str) -> str:
        strange = [r for r in self.select(suite=suite, shift="semantic") if r.metric in _STRANGERS]
        sets = list(dict.fromkeys((r.split, r.metric) for r in strange))
        averages = {m.name: self.average(suite, m.name) for m in self.suites[suite].methods}
        rows = []
        for method in self.ranked(suite):
            a = averages[method.name]
            line = [method.name, method.knew.words(), number(a.value, a.low, a.high), number(a.noise_floor)]
            line += [number(level) for level in a.levels]
            for split, metric in sets:
                record = self._index.get((suite, method.name, split, metric))
                line.append(number(record.value if record else None))
            rows.append(line)
        failed = self.suites[suite].failed
        is_known = not all(math.isnan(a.value) for a in averages.values())
        return html_table(
            [
                *("method", "knew", "average ECE", "noise floor", *map(str, (CLEAN, *LEVELS))),
                *(f"{_STRANGERS[metric]} {split}" for split, metric in sets),
            ],
            rows,
            title=suite,
            notes=[_CAPTION, *(f"{name} failed: {reason}" for name, reason in failed.items())],
            words=2,
            bold=0 if is_known else None,
        )

    def _by_level(self, suite: str, method: str, metric: str, wanted: Types) -> list[list[Record]]:
        """Return the records of severity 0 to 5; a level with the wrong types is left empty."""
        mine = [r for r in self.records if (r.suite, r.method, r.metric) == (suite, method, metric)]
        clean = [r for r in mine if r.shift == "none"]
        if wanted is not None:
            mine = [r for r in mine if r.corruption in wanted]
        groups = [[r for r in mine if r.corruption and r.severity == s] for s in LEVELS]
        types = [{r.corruption for r in group} for group in groups]
        every = set().union(*types) if wanted is None else set(wanted)
        return [
            clean if len(clean) == 1 else [],
            *(g if kinds == every else [] for g, kinds in zip(groups, types, strict=True)),
        ]


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
