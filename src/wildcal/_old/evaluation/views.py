"""What `evaluate` and `compare` return: frozen numbers that keep their company."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wildcal._old.core.arrays import FloatArray
from wildcal._old.evaluation.behind import EXPLAINED, Behind
from wildcal._old.evaluation.estimate import Estimate
from wildcal._old.evaluation.knew import Knew
from wildcal._old.evaluation.results import frame
from wildcal._old.metrics import Reliability
from wildcal._old.metrics.interval import HOLDS_ITS_VALUE
from wildcal._old.metrics.registry import METRICS
from wildcal._old.tables import Cell, Column, Table, csv, html, number, ranked, text

UNITS: Final = "In percent, except Brier scores and NLL."
_COLUMNS: Final = ("metric", "value", "low", "high", "noise_floor", "rows")
_SHOWN: Final = ("ece", "noise_floor", "excess_ece", "sce", "kde_ece", "accuracy", "nll", "brier")
"""The metrics that the table of a comparison shows."""
_SHOWN_OOD: Final = ("ood_mean_confidence", "ood_auroc")
_SPARE: Final = {name: i for i, name in enumerate(
    ("brier", "kde_ece", "ood_auroc", "sce", "accuracy", "nll", "noise_floor")
)}  # fmt: skip
"""Which of them are left out first where there is no room."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All metrics of one set of predictions; ``evaluation.ece`` and ``evaluation["ece"]``."""

    n_rows: int
    """In-distribution rows, on which everything but the OOD metrics is computed."""
    n_ood: int
    n_bins: int
    level: float
    """Level of the intervals."""
    n_boot: int
    """Bootstrap replicates they were made from."""
    estimates: Mapping[str, Estimate]
    reliability: Reliability
    drawn: Mapping[str, FloatArray] = field(default_factory=dict, repr=False, compare=False)
    """The metrics on resampled rows, from which intervals and paired differences are made."""

    def __getitem__(self, metric: str) -> float:
        return self.estimates[metric].value

    def __getattr__(self, name: str) -> float:
        if name in METRICS and name in self.estimates:
            return self.estimates[name].value
        why = "it was not measured" if name in METRICS else "it has metrics by their names"
        raise AttributeError(f"this evaluation has no {name!r}: {why}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.estimates]

    def estimate(self, metric: str) -> Estimate:
        """Return a metric with its interval."""
        return self.estimates[metric]

    def __repr__(self) -> str:
        shown = [m for m in ("accuracy", "nll", "brier", "ece", "noise_floor") if m in self]
        numbers = ", ".join(f"{name}={self[name]:.4f}" for name in shown)
        return f"Evaluation(n_rows={self.n_rows}, {numbers})"

    def __str__(self) -> str:
        return text.render(self.table())

    def _repr_html_(self) -> str:
        """Return a table of all metrics, for notebooks."""
        return html.render(self.table())

    def table(self) -> Table:
        """Return all metrics as a table."""
        rows = []
        for name, e in self.estimates.items():
            # A metric that someone added has no title, and its unit is not known.
            info = METRICS.get(name)
            percent = info is not None and info.percent
            ends = [number(end, percent=percent) for end in (e.low, e.high)]
            title = name if info is None else info.title.strip()
            rows.append((Cell(title), number(e.value, percent=percent), *ends))
        columns = (Column("metric", is_number=False), *map(Column, ("value", "low", "high")))
        return Table(self.title, columns, tuple(rows), tuple(self.notes()))

    @property
    def title(self) -> str:
        """How many rows were measured, in words."""
        others = f", {self.n_ood:,} out-of-distribution rows" if self.n_ood else ""
        return f"{self.n_rows:,} rows{others}, {self.n_bins} bins"

    def notes(self) -> list[str]:
        """Return what has to be known about the numbers."""
        two = "spiegelhalter_z" in self.estimates
        units = UNITS.replace(" and NLL", ", NLL, slope, intercept and z") if two else UNITS
        if not self.n_boot:
            return [units]
        drawn = f"{100 * self.level:g} % bootstrap interval, {self.n_boot} replicates."
        return [units, f"Low to high: {drawn} {HOLDS_ITS_VALUE}"]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each metric, plain values."""
        return [
            dict(zip(_COLUMNS, (name, e.value, e.low, e.high, e.floor, e.n), strict=True))
            for name, e in self.estimates.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "n_rows": self.n_rows,
            "n_ood": self.n_ood,
            "n_bins": self.n_bins,
            "level": self.level,
            "n_boot": self.n_boot,
            "metrics": {
                name: {"value": e.value, "low": e.low, "high": e.high}
                for name, e in self.estimates.items()
            },
            "reliability": self.reliability.to_dict(),
        }

    def to_csv(self) -> str:
        """Return a line for each metric, numbers in full precision."""
        return csv.render(_COLUMNS, [list(row.values()) for row in self.rows()])

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row for each metric."""
        return frame(self.rows(), _COLUMNS)


@dataclass(frozen=True, slots=True)
class Compared:
    """One method in a comparison: what it knew, what it did, how it fared."""

    name: str
    title: str
    knew: Knew
    """The information its fit used."""
    preserves_accuracy: bool
    class_changes: float
    """Share of the test rows whose most probable class is no longer that of the logits."""
    fit_seconds: float
    converged: bool
    notes: tuple[str, ...]
    """What the fit warned of."""
    evaluation: Evaluation
    behind: Behind
    """How far its ECE is behind the best."""

    def __getattr__(self, name: str) -> float:
        if name in METRICS:
            return float(getattr(self.evaluation, name))
        raise AttributeError(f"a compared method has no {name!r}.")

    def __getitem__(self, metric: str) -> float:
        return self.evaluation[metric]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        interval = self.behind.interval
        return {
            "title": self.title,
            "knew": self.knew.words(),
            "preserves_accuracy": self.preserves_accuracy,
            "class_changes": self.class_changes,
            "fit_seconds": self.fit_seconds,
            "converged": self.converged,
            "notes": list(self.notes),
            "evaluation": self.evaluation.to_dict(),
            "behind_best": self.behind.value,
            "behind_best_interval": interval.to_dict() if interval else None,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Methods sorted by ECE, the best first, and those that failed with the reason."""

    methods: tuple[Compared, ...]
    failed: Mapping[str, str]

    def __getitem__(self, name: str) -> Compared:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (method.name for method in self.methods)

    def __len__(self) -> int:
        return len(self.methods)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "methods": {method.name: method.to_dict() for method in self.methods},
            "failed": dict(self.failed),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each method and metric, plain values."""
        return [
            {
                "method": m.name,
                "knew": m.knew.words(),
                "preserves_accuracy": m.preserves_accuracy,
                "class_changes": m.class_changes,
                **row,
            }
            for m in self.methods
            for row in m.evaluation.rows()
        ]

    def to_csv(self) -> str:
        """Return a line for each method and metric, numbers in full precision."""
        return csv.render(self._columns(), [list(row.values()) for row in self.rows()])

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row for each method and metric."""
        return frame(self.rows(), self._columns())

    def _columns(self) -> tuple[str, ...]:
        return ("method", "knew", "preserves_accuracy", "class_changes", *_COLUMNS)

    def table(self) -> Table:
        """Return the methods as a table, best first."""
        failed = [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        if not self.methods:
            return Table("No method was measured.", (), (), tuple(failed))
        first = self.methods[0].evaluation
        shown = [*_SHOWN, *(_SHOWN_OOD if first.n_ood else ())]
        columns = {name: self._column(name) for name in shown if name in first}
        rows = [
            (
                Cell(m.name),
                Cell(m.knew.words()),
                Cell("yes" if m.preserves_accuracy else f"no ({m.class_changes:.1%})"),
                m.behind.cell(),
                *(column[i] for column in columns.values()),
            )
            for i, m in enumerate(self.methods)
        ]
        heads = [
            Column("method", is_number=False),
            Column("knew", is_number=False),
            Column("class kept", is_number=False),
            Column("behind"),
            *(Column(METRICS[name].title.strip(), spare=_SPARE.get(name)) for name in columns),
        ]
        level = f"{100 * first.level:g} %"
        notes = [
            f"{UNITS} The lowest ECE first. In brackets: {level} bootstrap interval."
            f" {HOLDS_ITS_VALUE}",
            f"{EXPLAINED} Class kept: whether the most probable class is always that of the"
            " logits, or how often it changed. Knew: what the fit used.",
        ]
        return Table(first.title, tuple(heads), tuple(rows), (*notes, *failed))

    def _column(self, metric: str) -> list[Cell]:
        """Return one metric of all methods, the best marked."""
        info = METRICS[metric]
        estimates = [m.evaluation.estimates.get(metric) for m in self.methods]
        # Intervals of all metrics would make the table too wide; that of the ECE counts.
        cells = [
            number(
                e.value if e else None,
                e.interval if e and metric == "ece" else None,
                percent=info.percent,
            )
            for e in estimates
        ]
        return ranked(cells, info.better)

    def __str__(self) -> str:
        return text.render(self.table())

    def _repr_html_(self) -> str:
        """Return a table of the methods, best first, for notebooks."""
        table = self.table()
        return html.render(table) if table.rows else html.notes([table.title, *table.notes])
