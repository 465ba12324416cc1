"""Fit every method once per suite, and measure it on every test split."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from wildcal._old.core.arrays import FloatArray, Labels
from wildcal._old.core.blocks import joined
from wildcal._old.core.checks import check_count
from wildcal._old.core.errors import FileFormatError
from wildcal._old.core.rows import Rows, join
from wildcal._old.evaluation.environments import Choice, everything
from wildcal._old.evaluation.estimate import Estimate
from wildcal._old.evaluation.measure import Walked, ask_again, measure
from wildcal._old.evaluation.methods import Method, choose_methods
from wildcal._old.evaluation.protocol.fitted import FittedMethod, fit_method
from wildcal._old.evaluation.protocol.observe import Observed
from wildcal._old.evaluation.protocol.rough import Rough
from wildcal._old.evaluation.protocol.tuning import ood_set, rank_of, read_tuning, sets_to_test
from wildcal._old.evaluation.resample import resample
from wildcal._old.evaluation.results import LEVELS, Record, Replicates, Results, SuiteResults
from wildcal._old.io.suite import Suite, SuiteSplit
from wildcal._old.metrics.registry import METRICS, Metric, choose_metrics
from wildcal._old.metrics.seen import Seen

Progress = Callable[[str, int], None]
"""Told what is being done and how many rows were finished."""
_OOD_CONFIDENCE = "ood_mean_confidence"
# Splits are joined up to this many bytes of logits, so that small ones share the calls of NumPy.
# With 64 times as much the rows' numbers leave the cache, and it takes a tenth longer.
_GROUP_BYTES = 1 << 20


def run_protocol(
    suites: Mapping[str, Suite],
    methods: Sequence[Method | str] | None = None,
    *,
    metrics: Sequence[str] = ("accuracy", "mean_confidence", "ece"),
    ood: str | None = None,
    ood_rows: int | None = None,
    only: Choice = everything,
    n_bins: int = 15,
    n_boot: int = 0,
    level: float = 0.95,
    observe: bool = False,
    progress: Progress = lambda doing, rows: None,
) -> Results:
    """Return one tidy table of methods x test splits x metrics of every suite.

    Each method is fitted once, on the tuning rows of a suite that it sees; methods that use
    out-of-distribution rows get some of one set, and that set is left out of the tests, unless it
    is the only one. All methods share one pass over the logits of a split, which is also the window
    whose context `context` reads.

    Parameters
    ----------
    suites
        Suites by the name that the table shows.
    methods
        Methods, or their short forms such as "ts" or "energy@clean"; by default the paper's.
    metrics
        Any of `METRICS`. On semantic splits only mean_confidence and the ood metrics apply, and
        these only there. For the ood metrics `context` reads as many clean as other rows in
        one context, their mixture: with a window for each set, the window and not the row would
        tell them apart. mean_confidence stays in the split's own windows.
    ood, ood_rows
        The set to tune with, by default the first, and how many of its rows, by default as many as
        in the paper (100 for up to 10 classes, 400 for up to 100, 3,500 beyond).
    only
        Which of the shifted tuning splits to take, by default all.
    n_boot, level
        Bootstrap replicates for the intervals, over images; 0 for none. A context stays that of
        all rows of its window.
    observe
        Whether to keep what a report draws: reliability tables, energies and temperatures.

    Examples
    --------
    >>> import wildcal
    >>> suites = {name: wildcal._old.suites.load(name) for name in wildcal._old.suites.names("cifar10")[:1]}
    >>> results = wildcal.run_protocol(suites, ["identity", "ts"])
    >>> [results.average(s, "ts").value < results.average(s, "identity").value for s in suites]
    [True]
    """
    measured = choose_metrics(metrics)
    if ood_rows is not None:  # here, because below it would be taken for trouble with a suite
        check_count("ood_rows", ood_rows, least=0)
    chosen = choose_methods() if methods is None else []
    for method in methods or ():
        chosen += choose_methods([method]) if isinstance(method, str) else [method]
    records: list[Record] = []
    found: dict[str, SuiteResults] = {}
    skipped: dict[str, str] = {}
    for name, suite in suites.items():
        runner = _SuiteRun(name, suite, measured, n_bins, n_boot, level, observe, progress)
        try:
            with suite.opened():
                runner.fit(chosen, ood, ood_rows, only)
                records += runner.measure()
            found[name] = runner.results()
        except (FileFormatError, ValueError) as error:
            skipped[name] = str(error)
        skipped |= runner.skipped
    return Results(tuple(records), found, skipped)


class _SuiteRun:
    """The protocol on one suite."""

    def __init__(
        self,
        name: str,
        suite: Suite,
        metrics: Sequence[Metric],
        n_bins: int,
        n_boot: int,
        level: float,
        observe: bool,
        progress: Progress,
    ) -> None:
        self.name, self.suite = name, suite
        self.n_bins, self.n_boot, self.level, self.progress = n_bins, n_boot, level, progress
        mine = [m for m in metrics if m.classes in (None, suite.n_classes)]
        self.known = [metric for metric in mine if metric.needs != "ood"]
        self.detection = [m for m in metrics if m.needs == "ood" and m.name != _OOD_CONFIDENCE]
        # On rows of no class, the mean confidence is what both names mean.
        names = {metric.name for metric in metrics}
        self.confidence = [n for n in ("mean_confidence", _OOD_CONFIDENCE) if n in names]
        self.methods: list[FittedMethod] = []
        self.failed: dict[str, str] = {}
        self.skipped = {f"{name}: {split}": text for split, text in suite.damaged.items()}
        self.drawn: dict[tuple[str, str], FloatArray] = {}
        self.clean: tuple[SuiteSplit, Walked] | None = None
        self.ood: str | None = None
        self.tuned_types: tuple[str, ...] = ()
        self.distances: dict[int | None, str] = {}
        self.observed = Observed(n_bins) if observe else None
        self.rough = Rough()

    def fit(
        self, methods: Sequence[Method], ood: str | None, ood_rows: int | None, only: Choice
    ) -> None:
        tuning = read_tuning(self.suite, ood, ood_rows, only)
        self.ood = tuning.ood
        with_ood = [method.name for method in methods if method.sees("ood")]
        if with_ood and tuning.ood is None:
            self.skipped[f"{self.name}: out-of-distribution tuning"] = (
                f"the suite has no such rows; {', '.join(with_ood)} had labels alone."
            )
        wide = [method.name for method in methods if method.sees("shifted")]
        if wide:
            types = (split.corruption for split in tuning.shifted)
            self.tuned_types = tuple(dict.fromkeys(kind for kind in types if kind))
        if wide and not tuning.shifted:
            self.skipped[f"{self.name}: shifted tuning"] = (
                f"the suite has no such rows; {', '.join(wide)} had clean ones alone."
            )
        for method in methods:
            self.progress(f"{self.name}: fitting {method.name}", 0)
            try:
                self._check_distances(method)
                self.methods.append(fit_method(method, tuning))
            except (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
                self.failed[method.name] = str(error)

    def _check_distances(self, method: Method) -> None:
        """Raise if a test split lacks the distances that a method reads, or they are damaged."""
        if "distances" not in method.calibrator.reads:
            return
        lacking = [split.name for split in self.suite.tests() if not split.has_distances]
        if lacking:
            raise ValueError(
                f"the suite has no distances to training images for {lacking[0]}"
                + (f" and {len(lacking) - 1} more splits" if len(lacking) > 1 else "")
                + "; an extraction with features adds them."
            )
        rank = rank_of(method.calibrator)
        if rank not in self.distances:
            self.distances[rank] = self._trouble(rank)
        if self.distances[rank]:
            raise FileFormatError(self.distances[rank])

    def _trouble(self, rank: int | None) -> str:
        """Return what is wrong with the distances of the test splits; empty where nothing is."""
        try:
            for split in self.suite.tests():
                split.distances(rank)
        except ValueError as error:
            return str(error)
        return ""

    def measure(self) -> list[Record]:
        records: list[Record] = []
        kept: list[_Cell] = []
        for split, walked, seen in self._walk(self._splits()):
            self.progress(f"{self.name}: {split.name}", split.rows)
            if split.shift == "none":
                self.clean = split, walked
            cells = (
                self._others(split, walked)
                if split.shift == "semantic"
                else [_Cell(split, self.known, self._seen(split, walked, seen))]
            )
            if self.n_boot:  # rows are needed until all splits were seen
                kept += cells
            else:
                records += self._records(cells)
        if self.observed is not None:
            self.observed.finish(self.methods)
        if self.n_boot:
            self.progress(f"{self.name}: resampling", 0)
            self._resample(kept)
        records += self._records(kept)
        self.rough.warn()
        return records

    def results(self) -> SuiteResults:
        drawn = Replicates(self.drawn, self.level, self.n_boot) if self.drawn else None
        return SuiteResults(
            tuple(self.methods),
            self.ood,
            self.failed,
            drawn,
            self.tuned_types,
            self.n_bins,
            self.observed,
        )

    def _walk(
        self, splits: Sequence[SuiteSplit]
    ) -> Iterator[tuple[SuiteSplit, Walked, list[Seen]]]:
        """Yield the splits in order with what one walk found of all methods, and metrics read.

        Short splits are walked together, unless a metric adds up over the rows of a split.
        """
        adds = any(metric.sums is not None for metric in self.known)
        floors = any(metric.floored for metric in self.known)
        for group in groups(splits, 0 if adds else _GROUP_BYTES):
            logits = joined([split.logits for split in group])
            walked = measure(
                Rows(logits, y=np.concatenate([split.y for split in group])),
                [method.bind(group, logits) for method in self.methods],
                self.known if group[0].shift != "semantic" or len(group) > 1 else (),
                n_bins=self.n_bins,
                observe=self.observed is not None,
            )
            parts = walked.parts([split.rows for split in group], self.n_bins, floors=floors)
            for split, (part, seen) in zip(group, parts, strict=True):
                yield split, part, seen

    def _seen(self, split: SuiteSplit, walked: Walked, found: list[Seen]) -> list[Seen]:
        """Keep what metrics read of all methods on a split whose rows have classes."""
        if self.observed is not None:
            self.observed.add(split, walked, [seen.top for seen in found])
        for method, seen in zip(self.methods, found, strict=True):
            seen.again = lambda look, m=method: ask_again(m.bind([split]), split.y)(look)
        return found

    def _others(self, split: SuiteSplit, walked: Walked) -> list["_Cell"]:
        """Return what metrics read on rows of no class: confidence, and against clean rows."""
        if self.observed is not None:
            self.observed.add(split, walked, [])
        if not self._unseen(split):
            return []
        cells = []
        if self.confidence:
            alone = [Seen(ood=confidence) for confidence in walked.confidence]
            cells.append(_Cell(split, [METRICS[_OOD_CONFIDENCE]], alone, self.confidence))
        if self.detection and self.clean is not None:
            pairs = [
                Seen(scores=self._scores(method, self.clean, (split, walked), m))
                for m, method in enumerate(self.methods)
            ]
            cells.append(_Cell(split, self.detection, pairs))
        return cells

    def _records(self, cells: Sequence["_Cell"]) -> list[Record]:
        with self.rough.collected():
            return [record for cell in cells for record in self._of_cell(cell)]

    def _of_cell(self, cell: "_Cell") -> Iterator[Record]:
        split = cell.split
        for m, (method, seen) in enumerate(zip(self.methods, cell.seen, strict=True)):
            for metric in cell.metrics:
                self.rough.place = f"{self.name}: {method.name} on {split.name}"
                value = metric.value(seen)
                if isnan(value):
                    continue
                for name in cell.names or (metric.name,):
                    drawn = self.drawn.get((name, split.name))
                    ends: tuple[float | None, float | None] = (None, None)
                    if drawn is not None:
                        ends = metric.interval(value, drawn[m], self.level, seen.floor)
                    floor = seen.floor if metric.name == "ece" else None
                    estimate = Estimate(value, *ends, floor, split.rows, self.level)
                    yield self._record(method, split, name, estimate)

    def _resample(self, cells: Sequence["_Cell"]) -> None:
        """Draw the same images in all cells of as many rows, for all methods."""
        for metrics in {tuple(cell.metrics): None for cell in cells}:
            mine = [cell for cell in cells if tuple(cell.metrics) == metrics]
            drawn = resample([s for cell in mine for s in cell.seen], metrics, self.n_boot)
            for metric, values in drawn.items():
                by_cell = values.reshape(len(mine), len(self.methods), self.n_boot)
                for cell, found in zip(mine, by_cell, strict=True):
                    for name in cell.names or (metric,):
                        self.drawn[name, cell.split.name] = found

    def _splits(self) -> list[SuiteSplit]:
        """Return the splits to test on, clean first; a damaged one is left out and noted."""
        observed = self.observed is not None  # pictures of the raw logits show all sets
        tests = [
            s for s in self.suite.tests() if s.shift != "semantic" or observed or self._unseen(s)
        ]
        usable = []
        self.progress(f"{self.name}: reading", 0)
        for split in sorted(tests, key=lambda s: s.shift != "none"):
            try:
                split.verify()
                usable.append(split)
            except FileFormatError as error:
                self.skipped[f"{self.name}: {split.name}"] = str(error)
        gap = _gap(usable)
        if gap:
            self.skipped[f"{self.name}: the average over severities"] = gap
        self.progress(f"{self.name}: measuring", 0)
        return usable

    def _unseen(self, split: SuiteSplit) -> bool:
        return ood_set(split.name) in sets_to_test(self.suite, self.ood)

    def _record(
        self, method: FittedMethod, split: SuiteSplit, metric: str, estimate: Estimate
    ) -> Record:
        return Record(
            suite=self.name,
            method=method.name,
            knew=method.knew,
            split=split.name,
            shift=split.shift,
            corruption=split.corruption,
            severity=split.severity,
            metric=metric,
            estimate=estimate,
        )

    def _scores(
        self,
        method: FittedMethod,
        clean: tuple[SuiteSplit, Walked],
        other: tuple[SuiteSplit, Walked],
        m: int,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the confidences of as many clean as other rows; in a context, that of both."""
        chosen = _balanced(clean[0].rows, other[0].rows)
        sets = (clean, other)
        if not method.reads_window:
            a, b = (w.confidence[m][mine] for (_, w), mine in zip(sets, chosen, strict=True))
            return a, b
        # In a context of its own, each set would be told from the other by it, not by its rows.
        parts = [
            Rows(split.logits, distances=method.distances([split]))[mine]
            for (split, _), mine in zip(sets, chosen, strict=True)
        ]
        both = replace(join(parts), window=np.zeros(2 * len(parts[0]), np.int64))
        confidence = method.calibrator.bind(both).confidences().astype(np.float64)
        a, b = np.split(np.minimum(confidence, 1.0), 2)
        return a, b


@dataclass(frozen=True, slots=True)
class _Cell:
    """What metrics read of all methods on one split."""

    split: SuiteSplit
    metrics: Sequence[Metric]
    seen: Sequence[Seen]
    names: Sequence[str] = ()
    """What the metric is called here, where not by its own name."""


def groups(splits: Sequence[SuiteSplit], most: int = _GROUP_BYTES) -> Iterator[list[SuiteSplit]]:
    """Yield runs of consecutive splits of one dtype with at most so many bytes together."""
    group: list[SuiteSplit] = []
    size = 0
    for split in splits:
        bytes_ = split.rows * split.n_classes * 4
        if group and (size + bytes_ > most or split.dtype != group[0].dtype):
            yield group
            group, size = [], 0
        group.append(split)
        size += bytes_
    if group:
        yield group


def _gap(splits: Sequence[SuiteSplit]) -> str:
    """Return what the paper's average lacks; nothing for a suite without corruptions."""
    cells = {(s.corruption, s.severity) for s in splits if s.shift == "covariate" and s.corruption}
    if not cells:
        return ""
    clean = sum(split.shift == "none" for split in splits)
    if clean != 1:
        return f"there must be one clean test split, got {clean}."
    wanted = {(kind, level) for kind, _ in cells for level in LEVELS}
    lacking = sorted(f"{kind} at severity {level}" for kind, level in wanted - cells)
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    return f"there is no {', '.join(lacking[:3])}{more}." if lacking else ""


def _balanced(inside: int, outside: int) -> list[Labels]:
    """Return the numbers of as many rows of either kind, of sets with so many rows.

    AUPR depends on the shares, so the larger set is cut down at random, with a fixed seed.
    """
    n = min(inside, outside)
    rng = np.random.default_rng(0)
    return [np.sort(rng.permutation(rows)[:n]) for rows in (inside, outside)]
