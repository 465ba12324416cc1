"""`compare`: methods fitted on one calibration set and measured on one test set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.calibrator import Calibrator, clone
from wildcal.core.exceptions import InputError
from wildcal.core.registry import get_calibrator
from wildcal.core.validation import in_memory
from wildcal.evaluation.evaluate import evaluate_scores, scores_of, split_by_group
from wildcal.evaluation.information import information_used
from wildcal.evaluation.methods import FIT_ERRORS, timed_fit
from wildcal.evaluation.results import Comparison, MethodResult
from wildcal.evaluation.tables import COMPARED
from wildcal.metrics._scores import Scores
from wildcal.metrics.bootstrap import Options
from wildcal.metrics.registry import Metric, get_metric

DEFAULT_METHODS: Final = (
    "identity", "ts", "ets", "vector", "dirichlet", "sms", "irova", "energy", "auto",
)  # fmt: skip
CONFIDENCE_METHODS: Final = ("identity", "ts", "platt", "beta", "isotonic", "auto")
"""Default methods for confidences (right or wrong)."""
# Matrices of more classes take minutes to fit.
_MAX_MATRIX_CLASSES: Final = 100
_MATRIX_METHODS: Final = ("dirichlet", "sms")


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
        What X is, see `Calibrator.fit`.
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
    options = Options(n_bins, n_bootstrap, level, seed)
    (x, y), (x_test, y_test) = _pair("calibration", calibration), _pair("test", test)
    distances = knn_distances or (None, None)
    weights = sample_weight or (None, None)
    if sort is None:
        sort = "top_label_brier" if input == "confidence" else "nll"
    ranking = get_metric(sort)
    if ranking.better is None:
        raise InputError(f"sort must be a metric with a better side, got {sort!r}.", "sort")
    candidates = _candidates(methods, x, input)
    raw = _predicted(x_test, input)
    results: list[MethodResult] = []
    failed: dict[str, str] = {}
    for name, calibrator in candidates.items():
        if progress is not None:
            progress(name)
        mine = distances if calibrator.requires else (None, None)
        try:
            seconds = timed_fit(
                calibrator, X=x, y=y, input=input, sample_weight=weights[0], domain=domain,
                source_domain=source_domain, knn_distances=mine[0],
            )  # fmt: skip
            proba = calibrator.predict_proba(x_test, knn_distances=mine[1])
        except FIT_ERRORS as error:
            failed[name] = str(error)
            continue
        scores = scores_of(y_test, proba, input, calibrator.class_names_, weights[1])
        evaluation = evaluate_scores(
            scores, [*COMPARED, sort, *metrics], options, split_by_group(scores, groups), raw=raw
        )
        used = information_used(calibrator)
        kept, changed = calibrator.preserves_accuracy, _changed(scores, raw)
        results.append(MethodResult(name, calibrator, evaluation, used, kept, changed, seconds))
    return Comparison(_ranked(results, ranking), sort, failed)


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


def _predicted(x: Any, input: str) -> NDArray[Any] | None:
    """Return the predicted class without calibration, None of confidences."""
    if input == "confidence":
        return None
    values = np.asarray(in_memory(x))
    return (values > 0).astype(np.int64) if input == "score" else values.argmax(axis=1)


def _changed(scores: Scores, raw: NDArray[Any] | None) -> float:
    if raw is None or scores.predicted is None:
        return 0.0
    return float(np.average(scores.predicted != raw.reshape(-1), weights=scores.weight))


def _ranked(results: list[MethodResult], metric: Metric) -> tuple[MethodResult, ...]:
    """Return methods best first, with their differences to the best."""
    sign = -1 if metric.better == "higher" else 1
    for result in results:
        if metric.name not in result.evaluation:
            raise InputError(
                f"sort must be defined for these samples, got {metric.name!r}.", "sort"
            )
    ordered = sorted(results, key=lambda r: sign * r.evaluation[metric.name].value)
    gaps = [r.evaluation.minus(ordered[0].evaluation, metric.name) for r in ordered[1:]]
    others = (replace(r, difference=gap) for r, gap in zip(ordered[1:], gaps, strict=True))
    return (*ordered[:1], *others)
