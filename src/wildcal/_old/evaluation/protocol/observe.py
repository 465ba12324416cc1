"""What a report draws, kept while the protocol measures: reliability, energies, temperatures."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from wildcal._old.core.arrays import BoolArray, FloatArray, Labels
from wildcal._old.core.rows import Rows
from wildcal._old.core.softmax import predicted_class
from wildcal._old.evaluation.measure import Walked, measure
from wildcal._old.io.suite import SuiteSplit
from wildcal._old.metrics import TopLabelAccumulator

if TYPE_CHECKING:
    from wildcal._old.evaluation.protocol.fitted import FittedMethod

CLEAN: Final = "clean"
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

    split: SuiteSplit
    energy: FloatArray
    confidence: FloatArray
    """The largest softmax probability, uncalibrated."""
    correct: BoolArray


@dataclass(slots=True)
class ByClass:
    """How sure and how right: sums over the rows that were given each class."""

    rows: FloatArray
    right: FloatArray
    confidence: FloatArray
    """Of each method, shape (methods, K)."""

    def add(self, pred: Labels, correct: BoolArray, confidence: FloatArray) -> None:
        """Take in some rows; `confidence` has a row for each method."""
        n_classes = len(self.rows)
        self.rows += np.bincount(pred, minlength=n_classes)
        self.right += np.bincount(pred, correct, n_classes)
        self.confidence += [np.bincount(pred, mine, n_classes) for mine in confidence]


@dataclass(slots=True)
class Observed:
    """One suite, seen with the methods that were fitted on it."""

    n_bins: int
    tables: dict[str, list[TopLabelAccumulator]] = field(default_factory=dict)
    """For each condition, a table for each method, corruption types pooled."""
    cells: dict[str, list[TopLabelAccumulator]] = field(default_factory=dict)
    """The same for each corruption at each severity."""
    classes: dict[str, ByClass] = field(default_factory=dict)
    """For each condition, what becomes of each predicted class."""
    scores: dict[str, Scores] = field(default_factory=dict)
    """By the name of the split, in the order of the tests."""
    temperatures: dict[str, Temperatures] = field(default_factory=dict)
    """By the name of the method, of those that give every row one."""
    _divided: dict[str, list[FloatArray | None]] = field(default_factory=dict)

    @property
    def clean(self) -> Scores | None:
        """The clean test split, where there is one."""
        found = [s for s in self.scores.values() if s.split.shift == "none"]
        return found[-1] if found else None

    @property
    def ood(self) -> dict[str, Scores]:
        """The splits of no class, by name."""
        return {n: s for n, s in self.scores.items() if s.split.shift == "semantic"}

    def add(self, split: SuiteSplit, walked: Walked, tops: Sequence[TopLabelAccumulator]) -> None:
        """Take in one split: what a walk found, and the reliability table of each method."""
        self.scores[split.name] = Scores(split, walked.energy, walked.raw, walked.correct)
        self._divided[split.name] = walked.temperature
        if not tops:
            return
        kept = self.tables.setdefault(
            condition(split), [TopLabelAccumulator(self.n_bins) for _ in tops]
        )
        for mine, new in zip(kept, tops, strict=True):
            mine.merge(new)
        shape = (len(tops), split.logits.shape[1])
        empty = ByClass(np.zeros(shape[1]), np.zeros(shape[1]), np.zeros(shape))
        by_class = self.classes.setdefault(condition(split), empty)
        by_class.add(predicted_class(split.logits), walked.correct, walked.confidence)
        if split.corruption is not None and split.severity is not None:
            name = f"{split.corruption.replace('_', ' ')}, severity {split.severity}"
            self.cells[name] = list(tops)

    def finish(self, methods: Sequence["FittedMethod"]) -> None:
        """Make curves of the temperatures that were kept, and forget the single rows."""
        if not self.scores:
            return
        # The same share of every split, so that all conditions are there.
        step = max(1, sum(len(s.energy) for s in self.scores.values()) // _TEMPERATURE_ROWS)
        energy = -np.concatenate([s.energy[::step] for s in self.scores.values()])
        order = np.argsort(energy, kind="stable")
        groups = np.array_split(order, min(_TEMPERATURE_GROUPS, len(order)))
        middle = np.array([np.median(energy[g]) for g in groups])
        for m, method in enumerate(methods):
            parts = [divided[m] for divided in self._divided.values()]
            rows = [part[::step] for part in parts if part is not None]
            if len(rows) < len(parts):
                continue
            temperature = np.concatenate(rows)
            quantiles = np.array([np.quantile(temperature[g], (0.05, 0.5, 0.95)) for g in groups])
            self.temperatures[method.name] = Temperatures(middle, *quantiles.T)
        self._divided.clear()


def condition(split: SuiteSplit) -> str:
    """Return the condition that a split is one of."""
    if split.shift == "none":
        return CLEAN
    if split.corruption is None or split.severity is None:
        return f"set {split.name}"  # a set may be called as one of the others
    return f"severity {split.severity}, all corruptions"


def raw_scores(splits: Sequence[SuiteSplit]) -> list[Scores]:
    """Return what the raw logits of some splits say, without any method."""
    found = []
    for split in splits:
        walked = measure(Rows(split.logits, y=split.y), [], observe=True)
        found.append(Scores(split, walked.energy, walked.raw, walked.correct))
    return found
