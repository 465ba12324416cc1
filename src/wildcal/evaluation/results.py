"""Result of `evaluate`, and the base of all results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wildcal.core.arrays import FloatArray
from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.evaluation.tables import FLOOR, metric_columns, text_column, units
from wildcal.metrics import (
    METRICS,
    Difference,
    Estimate,
    IsotonicReliability,
    Metric,
    Reliability,
    RiskCoverage,
)
from wildcal.metrics.bootstrap import difference
from wildcal.tables import Cell, Column, Table, number, to_html, to_text

FORMAT_VERSION: Final = 1
"""Version of the JSON that `to_dict` returns."""
_GROUP_COLUMNS: Final = ("accuracy", "mean_confidence", "nll", "ece", "excess_ece", "binary_ece")


class Result:
    """Base of results: shown as tables in a terminal and in notebooks."""

    def table(self) -> Table:
        """Return the result as a table."""
        raise NotImplementedError

    def tables(self) -> list[Table]:
        """Return the tables that are shown."""
        return [self.table()]

    def records(self) -> list[dict[str, Any]]:
        """Return the result as rows of a tidy table."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the result as a pandas DataFrame, one row for each number."""
        return data_frame(self.records())

    def __str__(self) -> str:
        return "\n\n".join(map(to_text, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(map(to_html, self.tables()))


def data_frame(records: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows of a tidy table as a pandas DataFrame."""
    try:
        import pandas  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingExtraError(
            "DataFrames need pandas. Install it with: pip install pandas"
        ) from error
    return pandas.DataFrame(records)


def as_loss(metric: str, value: float) -> float:
    """Return the value of a metric, or minus the value if higher is better."""
    return -value if METRICS[metric].better == "higher" else value


def estimate_columns(e: Estimate) -> dict[str, float | None]:
    """Return an estimate as columns of a tidy table."""
    return {"value": e.value, "low": e.low, "high": e.high, "noise_floor": e.floor}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """Metrics of one set of predictions: ``evaluation.ece`` is an `Estimate`.

    Fractions, not per cent.
    """

    estimates: Mapping[str, Estimate]
    """All metrics by name."""
    n_samples: int
    """In-distribution samples. Metrics of OOD detection also use OOD samples, others do not."""
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
    changed: float | None = None
    """Fraction of samples whose predicted class is not that of the logits; None if not known."""
    replicates: Mapping[str, FloatArray] = field(default_factory=dict)
    """Metrics of bootstrap replicates."""
    notes: tuple[str, ...] = ()

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
        shown = [name for name in ("accuracy", "nll", "ece", "excess_ece") if name in self]
        numbers = ", ".join(f"{name}={float(self[name]):.4f}" for name in shown)
        return f"Evaluation(n_samples={self.n_samples}, {numbers})"

    @property
    def worst_group(self) -> str | None:
        """Name of the group with the highest excess ECE; None if groups have none."""
        has_excess = any("excess_ece" in group for group in self.groups.values())
        return self.worst_group_by("excess_ece") if has_excess else None

    def worst_group_by(self, metric: str, *, lowest: bool = False) -> str:
        """Return the name of the group with the worst value of a metric.

        Of metrics without a better side, such as the calibration slope, it is the group with the
        highest value, or with `lowest` that with the lowest value.
        """
        losses = {
            n: as_loss(metric, e[metric].value) for n, e in self.groups.items() if metric in e
        }
        if not losses:
            raise InputError(f"{metric} of groups was not computed. Try metrics=[{metric!r}].")
        choose = min if lowest and METRICS[metric].better is None else max
        return choose(losses, key=losses.__getitem__)

    def minus(self, other: "Evaluation", metric: str) -> Difference:
        """Return the difference to another evaluation of the same samples in a metric."""
        value, drawn = self[metric].value - other[metric].value, None
        if metric in self.replicates and metric in other.replicates:
            drawn = self.replicates[metric] - other.replicates[metric]
        return difference(value, drawn, self.level)

    def table(self) -> Table:
        """Return all metrics as a table."""
        rows = []
        for name, e in self.estimates.items():
            metric = METRICS[name]
            rows.append(_row(metric.title, metric, e))
            if name == "accuracy" and self.uncalibrated_accuracy is not None:
                uncalibrated = Estimate(self.uncalibrated_accuracy)
                rows.append(_row("accuracy, uncalibrated", metric, uncalibrated))
        heads = ["value", f"{100 * self.level:g} % interval", "noise floor"]
        notes = [units(self), FLOOR, *self.notes]
        if self.n_bootstrap:
            notes.append(
                f"Intervals: bootstrap with {self.n_bootstrap} replicates. The interval of excess"
                " ECE is that of the calibration error without its upward bias on finite samples."
            )
        ood = f", {self.n_ood:,} OOD samples" if self.n_ood else ""
        title = f"{self.n_samples:,} samples{ood}, {self.n_bins} bins"
        columns = (Column("metric", is_number=False), *map(Column, heads))
        table = Table(title, columns, tuple(rows), tuple(notes))
        return table if self.n_bootstrap else table.select(["metric", "value", "noise floor"])

    def group_table(self) -> Table:
        """Return the groups as a table, the highest excess ECE first."""
        groups = list(self.groups.items())
        shown = [name for name in _GROUP_COLUMNS if any(name in e for _, e in groups)]
        if "excess_ece" in shown:
            groups.sort(key=lambda item: -item[1]["excess_ece"].value)
        sizes = [Cell(f"{e.n_samples:,}", e.n_samples) for _, e in groups]
        columns = [text_column("group", [name for name, _ in groups]), (Column("samples"), sizes)]
        for name in shown:
            estimates = [e.estimates.get(name) for _, e in groups]
            priority = 0 if "ece" in name else 1
            has_interval = name == "excess_ece"
            columns += metric_columns(name, estimates, priority=priority, interval=has_interval)
        return Table.of("By group", columns, [units(shown)])

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each metric of all samples and of each group."""
        return [
            {"group": name, "metric": metric, **estimate_columns(e), "n_samples": group.n_samples}
            for name, group in {"": self, **self.groups}.items()
            for metric, e in group.estimates.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. The schema is in the documentation."""
        return {
            "format": "wildcal evaluation",
            "format_version": FORMAT_VERSION,
            **self.numbers(),
            "n_bins": self.n_bins,
            "n_bootstrap": self.n_bootstrap,
            "level": self.level,
            "uncalibrated_accuracy": self.uncalibrated_accuracy,
            "groups": {name: group.numbers() for name, group in self.groups.items()},
            "worst_group": self.worst_group,
            "reliability": self.reliability.to_dict(),
        }

    def numbers(self) -> dict[str, Any]:
        """Return the numbers of samples and the metrics as plain values."""
        metrics = {name: estimate.to_dict() for name, estimate in self.estimates.items()}
        return {"n_samples": self.n_samples, "n_ood": self.n_ood, "metrics": metrics}


def _row(title: str, metric: Metric, e: Estimate) -> tuple[Cell, ...]:
    """Return the title, value, interval and noise floor of an estimate as cells."""
    value, floor = (number(x, percent=metric.is_percent) for x in (e.value, e.floor))
    # The interval of an error with a noise floor is that of its excess, in another row.
    ends = e.interval if e.interval is not None and e.floor is None else ()
    interval = " to ".join(number(end, percent=metric.is_percent).text for end in ends)
    return Cell(title), value, Cell(interval), floor
