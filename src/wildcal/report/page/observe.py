"""What the page shows beyond the tidy table: reliability by condition, energies, temperatures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from wildcal.calibrators import Identity
from wildcal.core.arrays import BoolArray, FloatArray
from wildcal.core.softmax import by_row, energy_and_pred
from wildcal.evaluation.knew import Knew
from wildcal.evaluation.protocol import FittedMethod
from wildcal.evaluation.protocol.shared import SplitRows, walk
from wildcal.io.suite import SuiteSplit
from wildcal.metrics import TopLabelAccumulator

CLEAN: Final = "clean"
# Reliability tables of every method and condition must leave the page small enough to send.
_MOST_TABLES_BINS: Final = 60_000
_TEMPERATURE_GROUPS: Final = 40
_TEMPERATURE_ROWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Temperatures:
    """The temperature of one method by energy: quantiles of groups of equally many rows."""

    energy: FloatArray
    low: FloatArray
    median: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True)
class Scores:
    """What the raw logits of one split say."""

    energy: FloatArray
    confidence: FloatArray
    """The largest softmax probability, uncalibrated."""
    correct: BoolArray

    @classmethod
    def of(cls, rows: SplitRows) -> "Scores":
        """Return the scores of a walk whose last method leaves the logits as they are."""
        return cls(rows.energy, rows.confidence[-1], rows.correct)


@dataclass(slots=True)
class Observed:
    """One suite, seen with the methods that were fitted on it."""

    tables: dict[str, list[TopLabelAccumulator]] = field(default_factory=dict)
    """For each condition, a table for each method."""
    pooled_only: bool = False
    """Whether single cells were left out for their number."""
    clean: Scores | None = None
    strangers: dict[str, Scores] = field(default_factory=dict)
    """By the name of the semantic set."""
    temperatures: dict[str, Temperatures] = field(default_factory=dict)


def observe(splits: Sequence[SuiteSplit], methods: Sequence[FittedMethod], n_bins: int) -> Observed:
    """Return what the rows show; `splits` are those that could be read, clean first."""
    seen = Observed()
    conditions = sum(split.shift != "semantic" for split in splits)
    seen.pooled_only = conditions * len(methods) * n_bins > _MOST_TABLES_BINS
    raw = FittedMethod("raw", _raw(splits), Knew(), 0.0)
    for rows in walk(splits, [*methods, raw]):
        split = rows.split
        if split.shift == "semantic":
            seen.strangers[split.name] = Scores.of(rows)
            continue
        if split.shift == "none":
            seen.clean = Scores.of(rows)
        tables = [
            TopLabelAccumulator(n_bins).update(rows.correct, confidence)
            for confidence in rows.confidence[:-1]
        ]
        for condition in _conditions(split, pooled_only=seen.pooled_only):
            kept = seen.tables.setdefault(condition, [TopLabelAccumulator(n_bins) for _ in methods])
            for mine, new in zip(kept, tables, strict=True):
                mine.merge(new)
    seen.temperatures = _temperatures(splits, methods)
    return seen


def _raw(splits: Sequence[SuiteSplit]) -> Identity:
    n_classes = splits[0].n_classes if splits else 2
    return Identity().fit(np.zeros((1, n_classes)), np.zeros(1, np.int64))


def _conditions(split: SuiteSplit, *, pooled_only: bool) -> Iterator[str]:
    """Yield the conditions whose tables a split adds to."""
    if split.shift == "none":
        yield CLEAN
        return
    if split.corruption is None or split.severity is None:
        yield f"set {split.name}"  # a set may be called as one of the others
        return
    yield f"severity {split.severity}, all corruptions"
    if not pooled_only:
        yield f"{split.corruption.replace('_', ' ')}, severity {split.severity}"


def _temperatures(
    splits: Sequence[SuiteSplit], methods: Sequence[FittedMethod]
) -> dict[str, Temperatures]:
    """Return temperature by energy of the methods that give every row its own."""
    if not splits:
        return {}
    # The same share of every split, so that all conditions are there.
    step = max(1, sum(split.rows for split in splits) // _TEMPERATURE_ROWS)
    logits = np.concatenate([split.logits[::step] for split in splits])
    energy = -energy_and_pred(logits)[0]
    order = np.argsort(energy, kind="stable")
    groups = np.array_split(order, min(_TEMPERATURE_GROUPS, len(order)))
    found = {}
    for method in methods:
        parts = [_temperature(method, split, step) for split in splits]
        if any(part is None for part in parts):
            continue
        temperature = np.concatenate([part for part in parts if part is not None])
        quantiles = np.array([np.quantile(temperature[g], (0.05, 0.5, 0.95)) for g in groups])
        middle = np.array([np.median(energy[g]) for g in groups])
        found[method.name] = Temperatures(middle, *quantiles.T)
    return found


def _temperature(method: FittedMethod, split: SuiteSplit, step: int) -> FloatArray | None:
    """Return what every `step`-th row of a split is divided by; None where there is no such T."""
    bound = method.bind([split])
    if bound.temperature is None:
        return None
    return by_row(bound.logits, bound.temperature)[::step].astype(np.float64)
