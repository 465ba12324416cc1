"""`compare_models`: two or more models on the same samples, with paired differences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_number
from wildcal.evaluation.evaluate import evaluate
from wildcal.evaluation.results import FORMAT_VERSION, Evaluation, Result
from wildcal.evaluation.tables import estimate_column, text_column, units
from wildcal.metrics import METRICS, Difference
from wildcal.tables import Table


@dataclass(frozen=True, eq=False)
class ModelComparison(Result):
    """Two or more models on the same samples: paired differences to the first."""

    evaluations: Mapping[str, Evaluation]
    differences: Mapping[str, Mapping[str, Difference]]
    """By model, then metric: the value of the model minus that of the first one."""
    verdicts: Mapping[str, Mapping[str, str]]
    """By model, then metric: "better", "worse", "different", "equivalent" or "undecided"."""
    margin: float | None
    """Differences up to this size count as equivalent."""

    def table(self) -> Table:
        """Return a row for each metric."""
        (reference, first), *others = self.evaluations.items()
        metrics = [METRICS[name] for name in first]
        columns = [
            text_column("metric", [m.title for m in metrics]),
            estimate_column(reference, metrics, list(first.estimates.values())),
        ]
        for name, e in others:
            values = [e.estimates.get(metric) for metric in first]
            gaps = [self.differences[name].get(metric) for metric in first]
            verdicts = [self.verdicts[name].get(metric, "") for metric in first]
            columns += [
                estimate_column(name, metrics, values),
                estimate_column(f"{name} - {reference}", metrics, gaps, interval=True, sign=True),
                text_column("verdict", verdicts),
            ]
        notes = [units(first), f"Differences with paired {100 * first.level:g} % intervals."]
        notes += [f"{n}: {note}" for n, e in self.evaluations.items() for note in e.notes]
        if self.margin is not None:
            notes.append(f"Equivalent: the interval lies within {self.margin:g}.")
        return Table.of(f"{first.n_samples:,} samples", columns, notes)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each model and metric."""
        rows = []
        for model, evaluation in self.evaluations.items():
            differences, verdicts = self.differences.get(model, {}), self.verdicts.get(model, {})
            for name, e in evaluation.estimates.items():
                d = differences.get(name)
                value, low, high = (d.value, d.low, d.high) if d else (None, None, None)
                row = {"model": model, "metric": name, "value": e.value, "difference": value}
                row |= {"difference_low": low, "difference_high": high}
                rows.append({**row, "verdict": verdicts.get(name)})
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": "wildcal model comparison",
            "format_version": FORMAT_VERSION,
            "margin": self.margin,
            "models": {name: e.numbers() for name, e in self.evaluations.items()},
            "differences": {
                model: {
                    name: {**d.to_dict(), "verdict": self.verdicts[model][name]}
                    for name, d in found.items()
                }
                for model, found in self.differences.items()
            },
        }


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
        margin. Verdicts are "better" or "worse" if the interval excludes 0 ("different" if the
        metric has no better side), else "undecided".
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
    first, *others = models
    expected = np.asarray(models[first][0])
    for name in others:
        y = np.asarray(models[name][0])
        # Whether a prediction was right differs between models of the same samples.
        are_labels = y.dtype.kind != "b" and input != "confidence"
        if y.shape != expected.shape or (are_labels and not np.array_equal(y, expected)):
            raise InputError(
                f"models must have the same samples in the same order: y of {name!r} and {first!r}"
                " differ.",
                "models",
            )
    evaluations = {
        name: evaluate(y, proba, input=input, **options) for name, (y, proba) in models.items()
    }
    reference = evaluations.pop(first)
    differences: dict[str, dict[str, Difference]] = {}
    verdicts: dict[str, dict[str, str]] = {}
    for name, e in evaluations.items():
        differences[name] = {m: e.minus(reference, m) for m in reference if m in e}
        verdicts[name] = {m: verdict(m, d, margin) for m, d in differences[name].items()}
    return ModelComparison({first: reference, **evaluations}, differences, verdicts, margin)


def verdict(metric: str, difference: Difference, margin: float | None) -> str:
    """Return the verdict on a difference to the reference, see `compare_models`."""
    low, high = difference.low, difference.high
    if low is None or high is None:
        return "undecided"
    if margin is not None and -margin <= low and high <= margin:
        return "equivalent"
    better = METRICS[metric].better
    if better is None or not difference.is_significant:
        return "different" if difference.is_significant else "undecided"
    return "better" if (difference.value > 0) == (better == "higher") else "worse"
