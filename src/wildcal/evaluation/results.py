"""Results of `evaluate`, `compare` and `compare_models`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wildcal.core.arrays import FloatArray
from wildcal.core.exceptions import MissingExtraError
from wildcal.evaluation.information import InformationUsed
from wildcal.evaluation.tables import comparison_table, evaluation_table, group_table, model_table
from wildcal.metrics import (
    METRICS,
    Difference,
    Estimate,
    IsotonicReliability,
    Reliability,
    RiskCoverage,
)
from wildcal.metrics.bootstrap import difference
from wildcal.tables import Table, to_html, to_text

FORMAT_VERSION: Final = 1
"""Version of the JSON that `to_dict` returns."""


class Shown:
    """Shows its table in a terminal and in notebooks."""

    def table(self) -> Table:
        """Return the result as a table."""
        raise NotImplementedError

    def records(self) -> list[dict[str, Any]]:
        """Return the result as rows of a tidy table."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the result as a pandas DataFrame, one row for each number."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise MissingExtraError(
                "to_frame needs pandas. Install it with: pip install pandas"
            ) from error
        return pandas.DataFrame(self.records())

    def __str__(self) -> str:
        return to_text(self.table())

    def _repr_html_(self) -> str:
        return to_html(self.table())


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """Metrics of one set of predictions: ``evaluation.ece`` is an `Estimate`.

    Fractions, not per cent.
    """

    estimates: Mapping[str, Estimate]
    """All metrics by name."""
    n_samples: int
    """In-distribution samples. All metrics but those of OOD detection are about them."""
    n_ood: int
    n_bins: int
    n_bootstrap: int
    """Replicates of the intervals, 0 for none."""
    level: float
    """Level of the intervals."""
    reliability: Reliability
    isotonic: IsotonicReliability
    """The reliability curve by isotonic regression (CORP)."""
    risk_coverage: RiskCoverage
    """At most 200 points of the risk-coverage curve."""
    binary_reliability: Reliability | None = None
    """The curve of the probability of class 1, with two classes."""
    groups: Mapping[str, "Evaluation"] = field(default_factory=dict)
    """The evaluation of each group, by its name."""
    uncalibrated_accuracy: float | None = None
    """Accuracy of the argmax of the logits; None if it is the accuracy, or not known."""
    replicates: Mapping[str, FloatArray] = field(default_factory=dict)
    """Metrics of bootstrap replicates."""

    def __getattr__(self, name: str) -> Estimate:
        if name in METRICS:
            if name in self.estimates:
                return self.estimates[name]
            raise AttributeError(f"{name!r} was not computed. Try metrics=[{name!r}].")
        raise AttributeError(f"Evaluation has no attribute {name!r}")

    def __getitem__(self, metric: str) -> Estimate:
        return self.estimates[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.estimates]

    def __repr__(self) -> str:
        shown = [
            name for name in ("accuracy", "nll", "ece", "excess_ece") if name in self.estimates
        ]
        numbers = ", ".join(f"{name}={float(self[name]):.4f}" for name in shown)
        return f"Evaluation(n_samples={self.n_samples}, {numbers})"

    @property
    def worst_group(self) -> str | None:
        """Name of the group with the highest excess ECE; None without groups."""
        return self.worst_group_by("excess_ece") if self.groups else None

    def worst_group_by(self, metric: str) -> str:
        """Return the name of the group with the worst value of a metric."""
        sign = -1 if METRICS[metric].better == "higher" else 1
        found = {name: sign * e[metric].value for name, e in self.groups.items() if metric in e}
        return max(found, key=lambda name: found[name])

    def minus(self, other: "Evaluation", metric: str) -> Difference:
        """Return the difference to another evaluation of the same samples in a metric."""
        value, drawn = self[metric].value - other[metric].value, None
        if metric in self.replicates and metric in other.replicates:
            drawn = self.replicates[metric] - other.replicates[metric]
        return difference(value, drawn, self.level)

    def table(self) -> Table:
        """Return all metrics as a table."""
        return evaluation_table(self)

    def group_table(self) -> Table:
        """Return the groups as a table, the highest excess ECE first."""
        return group_table(self)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each metric of all samples and of each group."""
        found = []
        for group, e in {"": self, **self.groups}.items():
            for name, estimate in e.estimates.items():
                row = {"group": group, "metric": name, "value": estimate.value}
                row |= {"low": estimate.low, "high": estimate.high}
                found.append({**row, "noise_floor": estimate.floor, "n_samples": e.n_samples})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. The schema is in the documentation."""
        return {
            "format": "wildcal evaluation",
            "format_version": FORMAT_VERSION,
            **self._numbers(),
            "n_bins": self.n_bins,
            "n_bootstrap": self.n_bootstrap,
            "level": self.level,
            "uncalibrated_accuracy": self.uncalibrated_accuracy,
            "groups": {name: group._numbers() for name, group in self.groups.items()},
            "worst_group": self.worst_group,
            "reliability": self.reliability.to_dict(),
        }

    def _numbers(self) -> dict[str, Any]:
        metrics = {name: estimate.to_dict() for name, estimate in self.estimates.items()}
        return {"n_samples": self.n_samples, "n_ood": self.n_ood, "metrics": metrics}


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One method in a `Comparison`."""

    name: str
    calibrator: Any
    """The fitted calibrator."""
    evaluation: Evaluation
    information: InformationUsed
    """The data that its fit used."""
    preserves_accuracy: bool
    changed: float
    """Fraction of test samples whose predicted class is not that of the logits."""
    fit_seconds: float
    difference: Difference | None = None
    """Difference to the best method in the metric of the ranking; None for the best."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "information": self.information.to_dict(),
            "preserves_accuracy": self.preserves_accuracy,
            "changed": self.changed,
            "fit_seconds": self.fit_seconds,
            "difference_to_best": self.difference.to_dict() if self.difference else None,
            **self.evaluation._numbers(),
        }


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """Methods fitted on the same samples and measured on the same test samples, best first."""

    methods: tuple[MethodResult, ...]
    sort: str
    """The metric of the ranking."""
    failed: Mapping[str, str]
    """Methods that could not be fitted, with the reason."""

    def __getitem__(self, name: str) -> MethodResult:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (method.name for method in self.methods)

    def __len__(self) -> int:
        return len(self.methods)

    @property
    def best(self) -> MethodResult:
        """The first method of the ranking."""
        return self.methods[0]

    def table(self) -> Table:
        """Return the methods as a table, best first."""
        return comparison_table(self)

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


@dataclass(frozen=True, eq=False)
class ModelComparison(Shown):
    """Two or more models on the same samples: paired differences to the first."""

    evaluations: Mapping[str, Evaluation]
    differences: Mapping[str, Mapping[str, Difference]]
    """By model, then metric: the value of the model minus that of the first one."""
    verdicts: Mapping[str, Mapping[str, str]]
    """By model, then metric: "better", "worse", "equivalent" or "undecided"."""
    margin: float | None
    """Differences up to this size count as equivalent."""

    def table(self) -> Table:
        """Return a row for each metric."""
        return model_table(self)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each model and metric."""
        found = []
        for model, e in self.evaluations.items():
            for name, estimate in e.estimates.items():
                difference = self.differences.get(model, {}).get(name)
                row = {"model": model, "metric": name, "value": estimate.value}
                ends = {
                    f"difference{part}": getattr(difference, end) if difference else None
                    for part, end in (("", "value"), ("_low", "low"), ("_high", "high"))
                }
                verdict = self.verdicts.get(model, {}).get(name)
                found.append({**row, **ends, "verdict": verdict})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": "wildcal model comparison",
            "format_version": FORMAT_VERSION,
            "margin": self.margin,
            "models": {name: e._numbers() for name, e in self.evaluations.items()},
            "differences": {
                model: {
                    name: {**d.to_dict(), "verdict": self.verdicts[model].get(name)}
                    for name, d in found.items()
                }
                for model, found in self.differences.items()
            },
        }
