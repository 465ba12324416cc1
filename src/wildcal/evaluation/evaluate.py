"""`evaluate`: all metrics of one set of predictions, by group and with intervals."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.exceptions import InputError
from wildcal.core.labels import ClassNames
from wildcal.core.validation import check_number, column_names, in_memory
from wildcal.evaluation.results import Evaluation
from wildcal.metrics._scores import MAX_BINS, Scores, check_scores
from wildcal.metrics.bootstrap import DEFAULT_BOOTSTRAP, MAX_SAMPLES, Estimate, estimate, replicate
from wildcal.metrics.detection import compute_risk_coverage
from wildcal.metrics.registry import Metric, get_metrics
from wildcal.metrics.reliability import compute_isotonic_reliability, compute_reliability

if TYPE_CHECKING:
    from wildcal.core.calibrator import Calibrator

GROUP_METRICS: Final = (
    *("accuracy", "mean_confidence", "nll", "brier_score", "ece", "excess_ece", "binary_ece"),
)
"""Metrics of groups, unless metrics are named."""


def evaluate(
    y: Any,
    proba: Any = None,
    *,
    logits: Any = None,
    calibrator: "Calibrator | None" = None,
    input: str | None = None,
    groups: Any = None,
    sample_weight: ArrayLike | None = None,
    knn_distances: Any = None,
    metrics: Sequence[str] | None = None,
    n_bins: int = 15,
    n_bootstrap: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Return metrics of probabilities, or of a calibrator on logits.

    Parameters
    ----------
    y
        Labels (n,), -1 for OOD samples; names if `proba` is a DataFrame whose columns are the
        classes, or the calibrator has class names. With confidences: whether the prediction was
        right.
    proba
        Probabilities (n, K), or confidences (n,) with boolean y.
    logits, calibrator
        Instead of `proba`: what a fitted calibrator takes, and the calibrator. Methods that adapt
        to a window adapt to these samples.
    input
        What a one-dimensional `proba` is: "confidence" (of the predicted class; y is right or
        wrong) or "proba" (of class 1 of two).
    groups
        Labels (n,) of groups, such as topics or countries. The metrics of each are in
        `Evaluation.groups`.
    sample_weight
        Counts (n,): a weight of 2 is equivalent to repeating the sample.
    knn_distances
        Distances to training samples, if the calibrator needs them.
    metrics
        Names of `wildcal.metrics.METRICS`. Default: all that apply.
    n_bins
        Bins of binned errors and of the reliability curve.
    n_bootstrap
        Bootstrap replicates of the intervals, 0 for none. Default: 200, none above 2 million
        samples.
    level, seed
        Level of the intervals, and random seed of the bootstrap.
    progress
        Called with the number of finished replicates, `n_bootstrap` in all.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.8, 0.2], [0.3, 0.7], [0.9, 0.1], [0.6, 0.4]])
    >>> result = evaluate([0, 1, 0, 1], proba)
    >>> float(result.accuracy)
    0.75
    >>> evaluate([0, 1, 0, 1], proba, groups=["a", "a", "b", "b"]).worst_group
    'b'
    """
    chosen = get_metrics(metrics)
    check_number("n_bins", n_bins, 1, MAX_BINS, whole=True)
    check_number("level", level, 0.01, 0.9999)
    if n_bootstrap is not None:
        check_number("n_bootstrap", n_bootstrap, 0, 1_000_000, whole=True)
    uncalibrated = None
    if (proba is None) == (logits is None) or (logits is None) != (calibrator is None):
        raise InputError("evaluate needs either proba, or logits and calibrator.", "proba")
    names = column_names(proba)
    if calibrator is not None:
        proba = calibrator.predict_proba(logits, knn_distances=knn_distances)
        names, input = calibrator.class_names_, calibrator.input_
        if not calibrator.preserves_accuracy and calibrator.input_ in (
            "logits",
            "log_proba",
            "proba",
        ):
            uncalibrated = np.asarray(in_memory(logits)).argmax(axis=1)
    scores = scores_of(y, proba, input, names, sample_weight)
    options: dict[str, Any] = {"n_bins": n_bins, "level": level, "seed": seed}
    if n_bootstrap is None:
        n_bootstrap = DEFAULT_BOOTSTRAP if len(scores) <= MAX_SAMPLES else 0
    by_group = split_by_group(scores, groups)
    mine = chosen if metrics is not None else [m for m in chosen if m.name in GROUP_METRICS]
    return evaluate_scores(
        scores,
        chosen,
        n_bootstrap=n_bootstrap,
        groups={
            name: evaluate_scores(part, mine, n_bootstrap=n_bootstrap, **options)
            for name, part in by_group.items()
        },
        raw=uncalibrated,
        progress=progress,
        **options,
    )


def evaluate_scores(
    scores: Scores,
    metrics: Sequence[Metric],
    *,
    n_bins: int,
    n_bootstrap: int,
    level: float,
    seed: int,
    raw: NDArray[Any] | None = None,
    groups: Mapping[str, Evaluation] | None = None,
    progress: Callable[[int], None] | None = None,
    n_threads: int = 1,
) -> Evaluation:
    """Return the evaluation of checked samples; `raw` are predicted classes of the logits."""
    inside = scores.subset(~scores.is_ood) if scores.is_ood.any() else scores
    if not len(inside):
        raise InputError("y must contain in-distribution samples, got none.", "y")
    chosen = [metric for metric in metrics if metric.applies_to(scores)]
    drawn = {}
    if n_bootstrap:
        drawn = replicate(chosen, scores, n_bootstrap, n_bins=n_bins, seed=seed, progress=progress)

    def measured(metric: Metric) -> tuple[str, Estimate]:
        found = drawn.get(metric.name)
        return metric.name, estimate(metric, scores, found, n_bins=n_bins, level=level)

    if n_threads > 1:
        with ThreadPoolExecutor(n_threads) as pool:
            estimates = dict(pool.map(measured, chosen))
    else:
        estimates = dict(map(measured, chosen))
    binary = None
    if inside.n_classes == 2:
        event = inside.positive()
        binary = compute_reliability(event, event.weight, n_bins=n_bins, level=level)
    return Evaluation(
        estimates={name: e for name, e in estimates.items() if not np.isnan(e.value)},
        n_samples=len(inside),
        n_ood=len(scores) - len(inside),
        n_bins=n_bins,
        n_bootstrap=n_bootstrap,
        level=level,
        reliability=compute_reliability(inside, inside.weight, n_bins=n_bins, level=level),
        isotonic=compute_isotonic_reliability(inside, inside.weight),
        risk_coverage=compute_risk_coverage(inside, inside.weight).thinned(),
        binary_reliability=binary,
        replicates=drawn,
        uncalibrated_accuracy=_accuracy(scores, raw),
        groups=groups or {},
    )


def scores_of(
    y: Any, proba: Any, input: str | None, names: tuple[str, ...] | None, sample_weight: Any
) -> Scores:
    """Return checked samples; one-dimensional probabilities need `input` or boolean y."""
    proba = in_memory(proba)
    if np.ndim(proba) == 1 or np.shape(proba)[1:] == (1,):
        proba, labels = np.asarray(proba).reshape(-1), np.asarray(y)
        if input == "proba":
            proba = np.column_stack([1 - proba, proba])
        elif input == "confidence":
            if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
                raise InputError("y must be right or wrong (booleans, 0 or 1).", "y")
            y = labels.astype(bool)
        elif labels.dtype.kind != "b":
            raise InputError(
                "input must say what a one-dimensional proba is. Try input='proba' for the"
                " probability of class 1, or input='confidence' with y = right or wrong.",
                "input",
            )
    elif names is not None and len(names) == np.shape(proba)[1]:
        labels = np.asarray(y)
        if labels.dtype.kind in "USOT" and all(isinstance(label, str) for label in labels):
            y = ClassNames(names).encode(labels)
    return check_scores(y, proba, sample_weight)


def split_by_group(scores: Scores, groups: Any) -> dict[str, Scores]:
    """Return the in-distribution samples of each group by its name."""
    if groups is None:
        return {}
    labels = np.array([str(group) for group in np.asarray(groups).tolist()])
    if labels.shape != (len(scores),):
        raise InputError(
            f"groups must have one label per sample, got {len(labels)} for {len(scores)}.", "groups"
        )
    known = ~scores.is_ood
    names, index = np.unique(labels, return_inverse=True)
    masks = {str(name): known & (index == i) for i, name in enumerate(names)}
    return {name: scores.subset(mask) for name, mask in masks.items() if mask.any()}


def _accuracy(scores: Scores, predicted: NDArray[Any] | None) -> float | None:
    """Return the accuracy of other predictions, None if they are the same."""
    if predicted is None or scores.y is None:
        return None
    known = ~scores.is_ood
    right = (predicted == scores.y)[known]
    if (right == scores.correct[known]).all():
        return None
    return float(np.average(right, weights=scores.weight[known]))
