"""`evaluate`: all metrics of one set of predictions, by group and with intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.arrays import FloatArray
from wildcal.core.exceptions import InputError
from wildcal.core.labels import ClassNames
from wildcal.core.validation import column_names, in_memory
from wildcal.evaluation.results import Evaluation
from wildcal.metrics._scores import Scores, check_scores
from wildcal.metrics.bootstrap import Estimate, Options, estimate, replicate
from wildcal.metrics.detection import compute_risk_coverage
from wildcal.metrics.registry import Metric, get_metrics
from wildcal.metrics.reliability import compute_isotonic_reliability, compute_reliability

if TYPE_CHECKING:
    from wildcal.core.calibrator import Calibrator

GROUP_METRICS: Final = (
    "accuracy", "mean_confidence", "nll", "brier_score", "ece", "excess_ece", "binary_ece",
)  # fmt: skip
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
        Probabilities (n, K), or confidences (n,) with boolean y. In the NLL, zeros count as 1e-34;
        a calibrator replaces them before, see `logits_from_proba`.
    logits, calibrator
        Instead of `proba`: the input of a fitted calibrator, and the calibrator. Methods that adapt
        to a window adapt to these samples.
    input
        Kind of a one-dimensional `proba`: "confidence" (of the predicted class; y is right or
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
        Bootstrap replicates of the intervals, 0 for none. Default: 200, none above 500,000
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
    options = Options(n_bins, n_bootstrap, level, seed)
    if (proba is None) == (logits is None) or (logits is None) != (calibrator is None):
        raise InputError("evaluate needs either proba, or logits and calibrator.", "proba")
    names, uncalibrated = column_names(proba), None
    if calibrator is not None:
        proba = calibrator.predict_proba(logits, knn_distances=knn_distances)
        names, input = calibrator.class_names_, calibrator.input_
        if not calibrator.preserves_accuracy:
            uncalibrated = predicted_classes(logits, input)
    scores = replace(scores_of(y, proba, input, names, sample_weight), uncalibrated=uncalibrated)
    return evaluate_scores(scores, metrics, options, split_by_group(scores, groups), progress)


def evaluate_scores(
    scores: Scores,
    metrics: Sequence[str] | None,
    options: Options,
    groups: Mapping[str, Scores] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Return the evaluation of checked samples.

    Parameters
    ----------
    scores, groups
        All samples, and those of each group.
    metrics
        Names of metrics, by default all that apply.
    """
    known = scores.in_distribution
    if not known.weight.any():
        raise InputError(
            "y must contain in-distribution samples with a positive weight, got none.", "y"
        )
    options = options.for_samples(len(scores))
    n_bins, level = options.n_bins, options.level
    applicable = [m for m in get_metrics(metrics) if _applies(m, scores)]
    estimates, replicates = estimate_metrics(applicable, scores, options, progress)
    binary = None
    if known.n_classes == 2:
        binary = compute_reliability(known.positive, n_bins=n_bins, level=level)
    of_groups = GROUP_METRICS if metrics is None else metrics
    return Evaluation(
        estimates=estimates,
        n_samples=len(known),
        n_ood=len(scores) - len(known),
        n_bins=n_bins,
        n_bootstrap=options.n_bootstrap or 0,
        notes=_zero_note(known) if "nll" in estimates else (),
        level=level,
        reliability=compute_reliability(known, n_bins=n_bins, level=level),
        isotonic=compute_isotonic_reliability(known),
        risk_coverage=compute_risk_coverage(known).thinned(),
        binary_reliability=binary,
        replicates=replicates,
        uncalibrated_accuracy=_uncalibrated_accuracy(known),
        changed=_changed(scores),
        groups={
            name: evaluate_scores(part, of_groups, options) for name, part in (groups or {}).items()
        },
    )


def estimate_metrics(
    metrics: Sequence[Metric],
    scores: Scores,
    options: Options,
    progress: Callable[[int], None] | None = None,
) -> tuple[dict[str, Estimate], dict[str, FloatArray]]:
    """Return the metrics that are not NaN, and the bootstrap replicates of all, by name."""
    drawn = replicate(metrics, scores, options, progress)
    found = {m.name: estimate(m, scores, options, drawn.get(m.name)) for m in metrics}
    return {name: e for name, e in found.items() if not np.isnan(e.value)}, drawn


def _applies(metric: Metric, scores: Scores) -> bool:
    # Class-wise ECE needs all probabilities, which the evaluation of large files does not keep.
    is_known = metric.name != "classwise_ece" or scores.proba is not None
    return is_known and metric.applies_to(scores)


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
                "input must be the kind of a one-dimensional proba. Try input='proba' for the"
                " probability of class 1, or input='confidence' with y = right or wrong.",
                "input",
            )
    elif names is not None and len(names) == np.shape(proba)[1]:
        labels = np.asarray(y)
        if labels.dtype.kind in "USOT" and all(isinstance(label, str) for label in labels):
            y = ClassNames(names).encode(labels)
    return check_scores(y, proba, sample_weight)


def predicted_classes(x: Any, input: str) -> NDArray[Any] | None:
    """Return the predicted classes of logits, probabilities or scores, None of confidences."""
    if input == "confidence":
        return None
    values = np.asarray(in_memory(x))
    found = values.ravel() > 0 if input == "score" else values.argmax(axis=1)
    return found.astype(np.int32)


def split_by_group(scores: Scores, groups: Any) -> dict[str, Scores]:
    """Return the in-distribution samples of each group by its name."""
    if groups is None:
        return {}
    labels = np.array([str(group) for group in np.asarray(groups).tolist()])
    if labels.shape != (len(scores),):
        raise InputError(
            f"groups must have one label per sample, got {len(labels)} for {len(scores)}.", "groups"
        )
    names, index = np.unique(labels, return_inverse=True)
    return subsets(scores, names.tolist(), index)


def subsets(scores: Scores, names: Sequence[Any], index: NDArray[Any]) -> dict[str, Scores]:
    """Return the in-distribution samples of each group; `index` is the group of each sample.

    Groups without weight are left out.
    """
    known = np.flatnonzero(~scores.is_ood)
    order = known[np.argsort(index[known], kind="stable")]
    parts = np.split(order, np.searchsorted(index[order], np.arange(1, len(names))))
    found = {}
    for name, part in zip(names, parts, strict=True):
        if scores.weight[part].any():
            found[str(name)] = scores.subset(part)
    return found


def _zero_note(scores: Scores) -> tuple[str, ...]:
    """Return a note if the NLL has samples whose label has probability 0."""
    n = int((scores.log_loss > 78).sum())  # -log(1e-34) = 78.3
    text = f"NLL: a probability of 0 for the label counts as 1e-34 ({n:,} of {len(scores):,})."
    return (text,) if n else ()


def _uncalibrated_accuracy(scores: Scores) -> float | None:
    """Return the accuracy without calibration, None if the same samples are right with it."""
    right = scores.uncalibrated == scores.y
    if scores.uncalibrated is None or np.array_equal(right, scores.correct):
        return None
    return float(np.average(right, weights=scores.weight))


def _changed(scores: Scores) -> float | None:
    """Return the fraction of samples whose predicted class is changed by the calibration."""
    if scores.uncalibrated is None or scores.predicted is None:
        return None
    return float(np.average(scores.predicted != scores.uncalibrated, weights=scores.weight))
