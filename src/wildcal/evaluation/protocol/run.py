"""Fit every method once per suite, and measure it on every test split."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wildcal.core.arrays import FloatArray, Labels
from wildcal.core.checks import check_choice, check_count
from wildcal.core.errors import FileFormatError
from wildcal.core.rows import Rows, join
from wildcal.core.softmax import predicted_class
from wildcal.evaluation.environments import Choice, everything
from wildcal.evaluation.methods import Method, choose_methods
from wildcal.evaluation.protocol.binned import binned
from wildcal.evaluation.protocol.fitted import FittedMethod, fit_method
from wildcal.evaluation.protocol.resample import resampled_ece
from wildcal.evaluation.protocol.results import (
    LEVELS,
    Record,
    Replicates,
    Results,
    SuiteResults,
)
from wildcal.evaluation.protocol.shared import SplitRows, walk
from wildcal.evaluation.protocol.tuning import ood_set, rank_of, read_tuning
from wildcal.io.suite import Suite, SuiteSplit
from wildcal.metrics import (
    ClasswiseAccumulator,
    KdeAccumulator,
    aupr_in,
    aupr_out,
    auroc,
    fpr95,
)
from wildcal.metrics.interval import basic_interval

TOP_LABEL: Final = ("accuracy", "mean_confidence", "ece", "mce", "top_label_brier")
"""Metrics of the predicted class, which never need the matrix of probabilities."""
WHOLE: Final = ("sce", "kde_ece")
"""Metrics of all classes, which need it in pieces."""
DETECTION: Final = ("ood_auroc", "ood_aupr_in", "ood_aupr_out", "ood_fpr95")
"""Metrics of a set of other classes against the clean test rows, the two in one context."""
SPLIT_METRICS: Final = (*TOP_LABEL, *WHOLE, *DETECTION)

Progress = Callable[[str, int], None]
"""Told what is being done and how many rows were finished."""


def run_protocol(
    suites: Mapping[str, Suite],
    methods: Sequence[Method] | None = None,
    *,
    metrics: Sequence[str] = ("accuracy", "mean_confidence", "ece"),
    ood: str | None = None,
    ood_rows: int | None = None,
    only: Choice = everything,
    n_bins: int = 15,
    n_boot: int = 0,
    level: float = 0.95,
    progress: Progress = lambda doing, rows: None,
) -> Results:
    """Return one tidy table of methods x test splits x metrics of every suite.

    Each method is fitted once, on the clean tuning rows of a suite; methods that use
    out-of-distribution rows get some of one set, and that set is left out of the tests. The methods
    `context` and those with "-all" are fitted on the shifted tuning rows too. All methods share one
    pass over the logits of a split, which is also the window whose context `context` reads.

    Parameters
    ----------
    suites
        Suites by the name that the table shows.
    methods
        By default the paper's.
    metrics
        Any of `SPLIT_METRICS`. On semantic splits only mean_confidence and the ood metrics apply,
        and these only there. For the ood metrics `context` reads as many clean as other rows in
        one context, their mixture: with a window for each set, the window and not the row would
        tell them apart. mean_confidence stays in the split's own windows.
    ood, ood_rows
        The set to tune with, by default the first, and how many of its rows, by default as many as
        in the paper (100 for up to 10 classes, 400 for up to 100, 3,500 beyond).
    only
        Which of the shifted tuning splits to take, by default all.
    n_boot, level
        Bootstrap replicates for the intervals of the ECE, over images; 0 for none. A context stays
        that of all rows of its window.

    Examples
    --------
    >>> import wildcal
    >>> from wildcal.evaluation.protocol import choose_methods, run_protocol
    >>> suites = {name: wildcal.suites.load(name) for name in wildcal.suites.names()[:1]}
    >>> results = run_protocol(suites, choose_methods(["identity", "ts"]))
    >>> [results.average(s, "ts").value < results.average(s, "identity").value for s in suites]
    [True]
    """
    for metric in metrics:
        check_choice("metrics", metric, SPLIT_METRICS)
    if ood_rows is not None:  # here, because below it would be taken for trouble with a suite
        check_count("ood_rows", ood_rows, least=0)
    chosen = choose_methods() if methods is None else list(methods)
    records: list[Record] = []
    found: dict[str, SuiteResults] = {}
    skipped: dict[str, str] = {}
    for name, suite in suites.items():
        runner = _SuiteRun(name, suite, tuple(metrics), n_bins, n_boot, level, progress)
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
        metrics: tuple[str, ...],
        n_bins: int,
        n_boot: int,
        level: float,
        progress: Progress,
    ) -> None:
        self.name, self.suite, self.metrics = name, suite, metrics
        self.n_bins, self.n_boot, self.level, self.progress = n_bins, n_boot, level, progress
        self.methods: list[FittedMethod] = []
        self.failed: dict[str, str] = {}
        self.skipped = {f"{name}: {split}": text for split, text in suite.damaged.items()}
        self.drawn: dict[str, FloatArray] = {}
        self.clean: SplitRows | None = None
        self.ood: str | None = None
        self.tuned_types: tuple[str, ...] = ()
        self.distances: dict[int | None, str] = {}

    def fit(
        self, methods: Sequence[Method], ood: str | None, ood_rows: int | None, only: Choice
    ) -> None:
        tuning = read_tuning(self.suite, ood, ood_rows, only)
        self.ood = tuning.ood
        strangers = [method.name for method in methods if method.sees("ood")]
        if strangers and tuning.ood is None:
            self.skipped[f"{self.name}: out-of-distribution tuning"] = (
                f"the suite has no such rows; {', '.join(strangers)} had labels alone."
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
                self._check_densities(method)
                self.methods.append(fit_method(method, tuning))
            except (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
                self.failed[method.name] = str(error)

    def _check_densities(self, method: Method) -> None:
        """Raise if a test split lacks the distances that a method reads, or they are damaged."""
        if "distances" not in method.calibrator.reads:
            return
        lacking = [split.name for split in self.suite.tests() if not split.has_densities]
        if lacking:
            raise ValueError(
                f"the suite has no distances to training images for {lacking[0]}"
                + (f" and {len(lacking) - 1} more splits" if len(lacking) > 1 else "")
                + "; `wildcal extract --features` adds them."
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
                split.densities(rank)
        except ValueError as error:
            return str(error)
        return ""

    def measure(self) -> list[Record]:
        records: list[Record] = []
        kept: list[SplitRows] = []
        for rows in walk(self._splits(), self.methods):
            self.progress(f"{self.name}: {rows.split.name}", rows.split.rows)
            if rows.split.shift == "none":
                self.clean = rows
            values = self._semantic(rows) if rows.split.shift == "semantic" else self._known(rows)
            records += values
            if self.n_boot and rows.split.shift != "semantic":
                kept.append(rows)
        if self.n_boot and "ece" in self.metrics:
            self.progress(f"{self.name}: resampling", 0)
            self.drawn = resampled_ece(kept, self.n_bins, self.n_boot)
            records = [self._with_interval(record) for record in records]
        return records

    def results(self) -> SuiteResults:
        replicates = Replicates(self.drawn, self.level) if self.drawn else None
        methods = tuple(self.methods)
        return SuiteResults(methods, self.ood, self.failed, replicates, self.tuned_types)

    def _splits(self) -> list[SuiteSplit]:
        """Return the splits to test on, clean first; a damaged one is left out and noted."""
        tests = [s for s in self.suite.tests() if s.shift != "semantic" or self._unseen(s)]
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
        return ood_set(split.name) != self.ood

    def _record(
        self, method: FittedMethod, split: SuiteSplit, metric: str, value: float, **more: float
    ) -> Record:
        return Record(
            suite=self.name,
            method=method.name,
            knew=method.knew.words(),
            split=split.name,
            shift=split.shift,
            corruption=split.corruption,
            severity=split.severity,
            metric=metric,
            value=value,
            low=None,
            high=None,
            noise_floor=more.get("noise_floor"),
            rows=split.rows,
        )

    def _known(self, rows: SplitRows) -> Iterable[Record]:
        tops, floors = binned(rows, self.n_bins, floors="ece" in self.metrics)
        for method, top, floor in zip(self.methods, tops, floors, strict=True):
            whole = self._whole(method, rows.split)
            for metric in self.metrics:
                if metric == "ece":
                    yield self._record(method, rows.split, metric, top.ece(), noise_floor=floor)
                elif metric in TOP_LABEL:
                    yield self._record(method, rows.split, metric, getattr(top, metric)())
                elif metric in WHOLE:
                    yield self._record(method, rows.split, metric, whole[metric])

    def _whole(self, method: FittedMethod, split: SuiteSplit) -> dict[str, float]:
        """Return the metrics of all classes that were asked for; the matrix exists in pieces."""
        if not set(self.metrics) & set(WHOLE):
            return {}
        classwise, kde = ClasswiseAccumulator(split.n_classes, self.n_bins), KdeAccumulator()
        proba, y = method.bind([split]).proba(), split.y
        if "sce" in self.metrics:
            classwise.update(y, proba)
        if "kde_ece" in self.metrics:
            kde.update(y, proba, predicted_class(split.logits))
        values = {}
        if "sce" in self.metrics:
            values["sce"] = classwise.sce()
        if "kde_ece" in self.metrics:
            values["kde_ece"] = kde.kde_ece()
        return values

    def _semantic(self, rows: SplitRows) -> Iterable[Record]:
        for m, (method, confidence) in enumerate(zip(self.methods, rows.confidence, strict=True)):
            if "mean_confidence" in self.metrics:
                value = float(confidence.mean())
                yield self._record(method, rows.split, "mean_confidence", value)
            wanted = [metric for metric in DETECTION if metric in self.metrics]
            if wanted and self.clean is not None:
                scores = self._scores(method, self.clean, rows, m)
                is_id = np.arange(2 * len(scores[0])) < len(scores[0])
                for metric in wanted:
                    value = _DETECTORS[metric](is_id, np.concatenate(scores))
                    yield self._record(method, rows.split, metric, value)

    def _scores(
        self, method: FittedMethod, clean: SplitRows, other: SplitRows, m: int
    ) -> Sequence[FloatArray]:
        """Return the confidences of as many clean as other rows; in a context, that of both."""
        chosen = _balanced(clean.split.rows, other.split.rows)
        sets = (clean, other)
        if not method.reads_window:
            return [s.confidence[m][mine] for s, mine in zip(sets, chosen, strict=True)]
        # In a context of its own, each set would be told from the other by it, not by its rows.
        parts = [
            Rows(s.split.logits, distances=method.distances([s.split]))[mine]
            for s, mine in zip(sets, chosen, strict=True)
        ]
        both = replace(join(parts), window=np.zeros(2 * len(parts[0]), np.int64))
        confidence = method.calibrator.bind(both).confidences().astype(np.float64)
        return np.split(np.minimum(confidence, 1.0), 2)

    def _with_interval(self, record: Record) -> Record:
        if record.metric != "ece":
            return record
        index = [m.name for m in self.methods].index(record.method)
        drawn = self.drawn[record.split][index]
        interval = basic_interval(record.value, drawn, self.level, 0, 1)
        return replace(record, low=interval.low, high=interval.high)


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


_DETECTORS: Final[dict[str, Callable[..., float]]] = {
    "ood_auroc": auroc,
    "ood_aupr_in": aupr_in,
    "ood_aupr_out": aupr_out,
    "ood_fpr95": fpr95,
}
