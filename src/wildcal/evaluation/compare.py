"""`compare`: methods fitted on one calibration set and measured on one test set."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from wildcal.core.calibrator import Calibrator, clone
from wildcal.core.exceptions import InputError
from wildcal.core.registry import get_calibrator
from wildcal.evaluation import tables
from wildcal.evaluation.evaluate import evaluate
from wildcal.evaluation.information import InformationUsed, information_used
from wildcal.evaluation.methods import FIT_ERRORS, timed_fit
from wildcal.evaluation.results import FORMAT_VERSION, Evaluation, Result, as_loss
from wildcal.metrics import METRICS, Difference, get_metric
from wildcal.metrics.bootstrap import Options
from wildcal.metrics.registry import get_metrics
from wildcal.tables import Cell, Column, Table

DEFAULT_METHODS: Final = (
    "identity", "ts", "ets", "vector", "dirichlet", "sms", "irova", "energy", "auto",
)  # fmt: skip
CONFIDENCE_METHODS: Final = ("identity", "ts", "platt", "beta", "isotonic", "auto")
"""Default methods for confidences (right or wrong)."""
# Matrices of more classes take minutes to fit.
_MAX_MATRIX_CLASSES: Final = 100
_MATRIX_METHODS: Final = ("dirichlet", "sms")
_COLUMNS: Final = {
    "nll": 1, "ece": 1, "excess_ece": 2, "binary_ece": 1, "accuracy": 1, "brier_score": 4,
    "ood_auroc": 3, "ood_mean_confidence": 4,
}  # fmt: skip
"""Metrics of a comparison in the order of its table, and the priorities of their columns."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One method in a `Comparison`."""

    name: str
    calibrator: Any
    """The fitted calibrator."""
    evaluation: Evaluation
    fit_seconds: float
    difference: Difference | None = None
    """Difference to the best method in the metric of the ranking; None for the best."""

    @property
    def information(self) -> InformationUsed:
        """The data that the fit used."""
        return information_used(self.calibrator)

    @property
    def changed(self) -> float:
        """Fraction of test samples whose predicted class is not that of the logits."""
        return self.evaluation.changed or 0.0

    @property
    def preserves_accuracy(self) -> bool:
        """Whether the predicted class never changes."""
        return bool(self.calibrator.preserves_accuracy)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "information": self.information.to_dict(),
            "preserves_accuracy": self.preserves_accuracy,
            "changed": self.changed,
            "fit_seconds": self.fit_seconds,
            "difference_to_best": self.difference.to_dict() if self.difference else None,
            **self.evaluation.numbers(),
        }


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """Methods fitted on the same samples and measured on the same test samples, best first."""

    methods: tuple[MethodResult, ...]
    sort: str
    """The metric of the ranking."""
    failed: Mapping[str, str]
    """Methods that could not be fitted, with the reason."""

    def __getitem__(self, name: str) -> MethodResult:
        return {method.name: method for method in self.methods}[name]

    def __iter__(self) -> Iterator[str]:
        return (method.name for method in self.methods)

    def __len__(self) -> int:
        return len(self.methods)

    @property
    def best(self) -> MethodResult:
        """The first method of the ranking."""
        return self.methods[0]

    def table(self) -> Table:
        """Return a row for each method, best first."""
        methods, metric, first = self.methods, METRICS[self.sort], self.best.evaluation
        columns = [tables.text_column("method", [m.name for m in methods])]
        for name in dict.fromkeys((self.sort, *(n for n in _COLUMNS if n in first))):
            is_first = name == self.sort
            estimates = [m.evaluation.estimates.get(name) for m in methods]
            priority = 0 if is_first else _COLUMNS[name]
            columns += tables.metric_columns(
                name, estimates, priority=priority, interval=is_first, ranked=True
            )
        differences = [m.difference for m in methods if m.difference is not None]
        columns.insert(2, tables.difference_column(metric, differences))
        kept = ["yes" if m.preserves_accuracy else f"no ({m.changed:.1%} changed)" for m in methods]
        seconds = [Cell(f"{m.fit_seconds:.2f}", m.fit_seconds) for m in methods]
        columns += [
            tables.text_column("accuracy preserved", kept, priority=3),
            (Column("fit (s)", priority=6), seconds),
            tables.text_column("data used", [m.information for m in methods], priority=5),
        ]
        notes = [
            f"Sorted by {metric.title}. {tables.units(first)} {tables.FLOOR}",
            "To best: paired difference to the first method on the same bootstrap replicates; n.s.:"
            f" its {100 * first.level:g} % interval contains 0.",
        ]
        notes += tables.failure_notes(self.failed)
        ood = f", {first.n_ood:,} OOD samples" if first.n_ood else ""
        return Table.of(f"{first.n_samples:,} test samples{ood}", columns, notes)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each method and metric."""
        return [
            {"method": method.name, "data_used": str(method.information), **record}
            for method in self.methods
            for record in method.evaluation.records()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": "wildcal comparison",
            "format_version": FORMAT_VERSION,
            "sort": self.sort,
            "methods": {method.name: method.to_dict() for method in self.methods},
            "failed": dict(self.failed),
        }


def compare(
    calibration: tuple[Any, Any],
    test: tuple[Any, Any],
    methods: Sequence[str] | Mapping[str, Calibrator | str] | None = None,
    *,
    sort: str | None = None,
    input: str = "logits",
    domain: Any = None,
    source_domain: Any = None,
    knn_distances: tuple[Any, Any] | None = None,
    sample_weight: tuple[Any, Any] | None = None,
    groups: Any = None,
    metrics: Sequence[str] = (),
    n_bins: int = 15,
    n_bootstrap: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Fit methods on calibration samples and return their metrics on test samples, best first.

    Parameters
    ----------
    calibration, test
        Pairs (X, y) of held-out samples; y = -1 marks OOD samples. Methods that do not use OOD
        samples are fitted without them. Methods that adapt to a window adapt to all of test.
    methods
        Names of `wildcal.CALIBRATORS`, or unfitted calibrators by the names to show. Default:
        identity, ts, ets, vector, dirichlet, sms, irova, energy, auto; without energy if X are not
        logits, without dirichlet and sms above 100 classes.
    sort
        Metric of the ranking. Default: "nll", or "top_label_brier" of confidences.
    input
        Kind of X, see `Calibrator.fit`.
    domain, source_domain
        Domains of the calibration samples, see `Calibrator.fit`.
    knn_distances, sample_weight
        Of calibration and test, as pairs.
    groups
        Groups of the test samples, as in `evaluate`.
    metrics
        Further metrics to compute.
    n_bins, n_bootstrap, level, seed
        As in `evaluate`.
    progress
        Called with the name of each method before its fit.

    Examples
    --------
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(1000)
    >>> result = compare(suite.calibration, suite.shifted, ["identity", "ts", "energy"])
    >>> list(result)
    ['energy', 'ts', 'identity']
    """
    options = asdict(Options(n_bins, n_bootstrap, level, seed))
    (x, y), (x_test, y_test) = _pair("calibration", calibration), _pair("test", test)
    knn, knn_test = knn_distances or (None, None)
    weight, weight_test = sample_weight or (None, None)
    sort, candidates = _ranking(sort, input), _candidates(methods, x, input)
    wanted = [m.name for m in [*get_metrics([*_COLUMNS, sort]), *get_metrics(metrics)]]
    arguments = {"domain": domain, "source_domain": source_domain, "knn_distances": knn}
    arguments |= {"X": x, "y": y, "input": input, "sample_weight": weight}
    tested = {"logits": x_test, "knn_distances": knn_test, "sample_weight": weight_test}
    results, failed = list[MethodResult](), dict[str, str]()
    for name, calibrator in candidates.items():
        if progress is not None:
            progress(name)
        try:
            seconds = timed_fit(calibrator, **arguments)
        except FIT_ERRORS as error:
            failed[name] = str(error)
            continue
        evaluation = evaluate(
            y_test, calibrator=calibrator, groups=groups, metrics=wanted, **tested, **options
        )
        results.append(MethodResult(name, calibrator, evaluation, seconds))
    if not results:
        reasons = " ".join(dict.fromkeys(failed.values()))
        raise InputError(f"methods must contain one that can be fitted. {reasons}", "methods")
    return Comparison(_ranked(results, sort), sort, failed)


def _ranking(sort: str | None, input: str) -> str:
    """Return the metric of the ranking."""
    if sort is None:
        return "top_label_brier" if input == "confidence" else "nll"
    if (metric := get_metric(sort)).better is None:
        raise InputError(f"sort must be a metric with a better side, got {sort!r}.", "sort")
    return metric.name


def _pair(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise InputError(f"{name} must be a pair (X, y), got {type(value).__name__}.", name)
    return value[0], value[1]


def _candidates(methods: Any, x: Any, input: str) -> dict[str, Calibrator]:
    """Return unfitted calibrators by name."""
    if methods is None:
        methods = CONFIDENCE_METHODS if input == "confidence" else DEFAULT_METHODS
        n_classes = np.shape(x)[1] if np.ndim(x) == 2 else 2
        left_out = set() if n_classes <= _MAX_MATRIX_CLASSES else set(_MATRIX_METHODS)
        left_out |= set() if input in ("logits", "score") else {"energy"}
        methods = [name for name in methods if name not in left_out]
    if not isinstance(methods, Mapping):
        methods = {name: name for name in ([methods] if isinstance(methods, str) else methods)}
    return {
        name: get_calibrator(each) if isinstance(each, str) else clone(each)
        for name, each in methods.items()
    }


def _ranked(results: list[MethodResult], metric: str) -> tuple[MethodResult, ...]:
    """Return methods best first, with their differences to the best."""
    if any(metric not in result.evaluation for result in results):
        raise InputError(f"sort must be defined for these samples, got {metric!r}.", "sort")
    first, *others = sorted(results, key=lambda r: as_loss(metric, r.evaluation[metric].value))
    gaps = (replace(r, difference=r.evaluation.minus(first.evaluation, metric)) for r in others)
    return (first, *gaps)
