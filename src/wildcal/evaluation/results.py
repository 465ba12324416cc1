"""What an evaluation returns: frozen numbers that keep their company (interval, rows)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from wildcal.evaluation.html import html_table, number
from wildcal.metrics import Reliability


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """How a metric is shown: its title, which way is better, and whether it is a percentage."""

    title: str
    better: Literal["lower", "higher"] | None
    percent: bool = True


METRICS: dict[str, MetricInfo] = {
    "accuracy": MetricInfo("accuracy", "higher"),
    "mean_confidence": MetricInfo("mean confidence", None),
    "ece": MetricInfo("ECE", "lower"),
    "noise_floor": MetricInfo("  noise floor", None),
    "excess_ece": MetricInfo("  excess ECE", "lower"),
    "mce": MetricInfo("MCE", "lower"),
    "sce": MetricInfo("SCE (classwise)", "lower"),
    "equal_mass_ece": MetricInfo("equal-mass ECE", "lower"),
    "kde_ece": MetricInfo("KDE-ECE", "lower"),
    "ks_error": MetricInfo("KS error", "lower"),
    "brier": MetricInfo("Brier score", "lower", percent=False),
    "top_label_brier": MetricInfo("top-label Brier", "lower", percent=False),
    "nll": MetricInfo("NLL", "lower", percent=False),
    "aurc": MetricInfo("AURC", "lower"),
    "misclassification_auroc": MetricInfo("AUROC right/wrong", "higher"),
    "ood_mean_confidence": MetricInfo("OOD confidence", "lower"),
    "ood_auroc": MetricInfo("AUROC ID/OOD", "higher"),
    "ood_aupr_in": MetricInfo("AUPR-in (ID positive)", "higher"),
    "ood_aupr_out": MetricInfo("AUPR-out (OOD positive)", "higher"),
    "ood_fpr95": MetricInfo("FPR at 95 % TPR (ID positive)", "lower"),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric on one data set, with its bootstrap interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return value, low and high."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All metrics of one set of predictions; ``evaluation["ece"]`` is a number."""

    n_rows: int
    """In-distribution rows, on which everything but the OOD metrics is computed."""
    n_ood: int
    n_bins: int
    level: float
    """Level of the intervals."""
    n_boot: int
    """Bootstrap replicates they were made from."""
    measures: Mapping[str, Measure]
    reliability: Reliability

    def __getitem__(self, metric: str) -> float:
        return self.measures[metric].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.measures)

    def __repr__(self) -> str:
        shown = ("accuracy", "nll", "brier", "ece", "noise_floor")
        numbers = ", ".join(f"{name}={self[name]:.4f}" for name in shown)
        return f"Evaluation(n_rows={self.n_rows}, {numbers})"

    def _repr_html_(self) -> str:
        """Return a table of all metrics, for notebooks."""
        rows = []
        for name, m in self.measures.items():
            # A metric that someone added has no title, and its unit is not known.
            info = METRICS.get(name, MetricInfo(name, None, percent=False))
            value = number(m.value, percent=info.percent)
            interval = number(m.low, percent=info.percent), number(m.high, percent=info.percent)
            rows.append([info.title.strip(), value, *interval])
        notes = ["In percent, except Brier scores and NLL."]
        if self.n_boot:
            notes += [
                f"Low to high: {self.level:.0%} bootstrap interval, {self.n_boot} replicates."
            ]
        return html_table(
            ["metric", "value", "low", "high"],
            rows,
            title=f"{row_counts(self)}, {self.n_bins} bins",
            notes=notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "n_rows": self.n_rows,
            "n_ood": self.n_ood,
            "n_bins": self.n_bins,
            "level": self.level,
            "n_boot": self.n_boot,
            "metrics": {name: measure.to_dict() for name, measure in self.measures.items()},
            "reliability": self.reliability.to_dict(),
        }


def row_counts(evaluation: Evaluation) -> str:
    """Return how many rows were measured, in words."""
    strangers = f", {evaluation.n_ood:,} out-of-distribution rows" if evaluation.n_ood else ""
    return f"{evaluation.n_rows:,} rows{strangers}"
