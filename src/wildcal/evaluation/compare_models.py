"""`compare_models`: two or more models on the same samples, with paired differences."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_number
from wildcal.evaluation.evaluate import evaluate
from wildcal.evaluation.results import ModelComparison
from wildcal.metrics.bootstrap import Difference
from wildcal.metrics.registry import METRICS


def compare_models(
    models: Mapping[str, tuple[Any, Any]],
    *,
    margin: float | None = None,
    input: str | None = None,
    **options: Any,
) -> ModelComparison:
    """Return the metrics of several models and their paired differences to the first.

    Parameters
    ----------
    models
        Pairs (y, proba) or (correct, confidence) by the name of the model, of the same samples in
        the same order. The first model is the reference.
    margin
        Differences up to this size count as equivalent, in the unit of each metric (0.01 is one
        point of accuracy). With it, a verdict is "equivalent" if the interval lies within the
        margin. Verdicts are "better" or "worse" if the interval excludes 0, else "undecided".
    input, **options
        As in `evaluate`, such as `sample_weight`, `metrics`, `n_bootstrap` and `level`.

    Examples
    --------
    >>> import numpy as np
    >>> y, p = np.array([0, 1] * 200), np.tile([[0.8, 0.2], [0.3, 0.7]], (200, 1))
    >>> result = compare_models({"old": (y, p), "new": (y, p**3 / (p**3).sum(1, keepdims=True))})
    >>> result.verdicts["new"]["nll"]
    'better'
    """
    if len(models) < 2:
        raise InputError(f"models must have at least two entries, got {len(models)}.", "models")
    if margin is not None:
        check_number("margin", margin, 0.0, 1e6)
    labels = {name: np.asarray(pair[0]) for name, pair in models.items()}
    first = next(iter(models))
    for name, y in labels.items():
        is_other = (
            y.dtype.kind != "b" and input != "confidence" and not np.array_equal(y, labels[first])
        )
        if y.shape != labels[first].shape or is_other:
            raise InputError(
                f"models must have the same samples in the same order: y of {name!r} and {first!r}"
                " differ.",
                "models",
            )
    evaluations = {
        name: evaluate(y, proba, input=input, **options) for name, (y, proba) in models.items()
    }
    reference = evaluations[first]
    differences = {
        name: {metric: e.minus(reference, metric) for metric in reference if metric in e}
        for name, e in evaluations.items()
        if name != first
    }
    verdicts = {
        name: {metric: verdict(metric, d, margin) for metric, d in found.items()}
        for name, found in differences.items()
    }
    return ModelComparison(evaluations, differences, verdicts, margin)


def verdict(metric: str, difference: Difference, margin: float | None) -> str:
    """Return "better", "worse", "equivalent" or "undecided" of a difference to the reference.

    Metrics without a better side are "equivalent" or "undecided".
    """
    low, high = difference.low, difference.high
    if low is None or high is None:
        return "undecided"
    if margin is not None and -margin <= low and high <= margin:
        return "equivalent"
    better = METRICS[metric].better
    if better is None or not difference.is_significant:
        return "undecided"
    return "better" if (difference.value > 0) == (better == "higher") else "worse"
