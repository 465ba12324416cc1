"""Several methods, fitted on one tuning set and measured on the same test rows."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import OOD_LABEL, Labels, Logits
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import (
    check_environment,
    check_labels,
    check_logits,
    check_some_known,
    row_slices,
)
from wildcal.core.errors import CalibrationWarning
from wildcal.core.softmax import predicted_class
from wildcal.evaluation.evaluate import evaluate_calibrator
from wildcal.evaluation.html import html_notes, html_table, number
from wildcal.evaluation.results import METRICS, Evaluation, row_counts
from wildcal.metrics import PairedDifference, paired_difference

Progress = Callable[[str], None]
"""Called with the name of the method that is next, before its fit."""

_SHOWN: Final = ("ece", "noise_floor", "excess_ece", "accuracy", "nll", "brier")
"""The metrics that a notebook shows."""
_SHOWN_OOD: Final = ("ood_mean_confidence", "ood_auroc")
_CAPTION: Final = (
    "In percent, except Brier score and NLL; the lowest excess ECE first. Not sure: the interval of"
    " the difference holds 0. Knew: what the fit used."
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One method in a comparison: what it knew, what it did, how it fared."""

    name: str
    title: str
    used: str
    """The information its fit used."""
    preserves_accuracy: bool
    class_changes: float
    """Share of the test rows whose most probable class is no longer that of the logits."""
    fit_seconds: float
    converged: bool
    notes: tuple[str, ...]
    """What the fit warned of."""
    evaluation: Evaluation
    behind_best: float
    """ECE minus the lowest ECE of the comparison; 0 for the best."""
    behind_best_interval: PairedDifference | None
    """Its interval, on the same resampled rows; None for the best, and without bootstrap."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "title": self.title,
            "used": self.used,
            "preserves_accuracy": self.preserves_accuracy,
            "class_changes": self.class_changes,
            "fit_seconds": self.fit_seconds,
            "converged": self.converged,
            "notes": list(self.notes),
            "evaluation": self.evaluation.to_dict(),
            "behind_best": self.behind_best,
            "behind_best_interval": (
                self.behind_best_interval.to_dict() if self.behind_best_interval else None
            ),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Methods sorted by excess ECE, and those that failed with the reason."""

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

    def _repr_html_(self) -> str:
        """Return a table of the methods, best first, for notebooks."""
        failed = [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        if not self.methods:
            return html_notes(["No method was measured.", *failed])
        first = self.methods[0].evaluation
        shown = [*_SHOWN, *(_SHOWN_OOD if first.n_ood else ())]
        titles = [METRICS[metric].title.strip() for metric in shown]
        rows = []
        for method in self.methods:
            line = [method.name, method.used, _behind(method)]
            for metric in shown:
                found = method.evaluation.measures.get(metric)
                # Intervals of all metrics would make the table too wide; that of the ECE counts.
                limits = (found.low, found.high) if found and metric == "ece" else ()
                value = found.value if found else None
                line.append(number(value, *limits, percent=METRICS[metric].percent))
            rows.append(line)
        return html_table(
            ["method", "knew", "ECE - best", *titles],
            rows,
            title=f"{row_counts(first)}, {first.n_bins} bins",
            notes=[_CAPTION, *failed],
            words=2,
            bold=0,
        )


def compare(
    calibrators: Mapping[str, Calibrator],
    tuning: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
    *,
    environment: ArrayLike | None = None,
    n_bins: int = 15,
    n_boot: int = 1000,
    progress: Progress | None = None,
) -> Comparison:
    """Return how each calibrator, fitted on `tuning`, fares on `test`, best first.

    Parameters
    ----------
    calibrators
        Unfitted calibrators by the name to show; they are fitted in place.
    tuning
        Logits and labels. Rows with label -1 reach the methods that use them and no others.
    test
        Logits and labels; rows with label -1 count for the out-of-distribution metrics. Every row
        is read alone: they need not be one window.
    environment
        Environment of each tuning row, 0 for clean ones. It reaches the methods that read
        environments; to the others, the rows are one set.
    n_bins, n_boot
        As in `evaluate`.
    progress
        Called with each name before its fit.

    Examples
    --------
    >>> from wildcal import Identity, TemperatureScaling
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0, n_tuning=1000, n_test=1000)
    >>> methods = {"none": Identity(), "ts": TemperatureScaling()}
    >>> [m.name for m in compare(methods, suite.tuning, suite.shifted, n_boot=20).methods]
    ['ts', 'none']
    """
    z = check_logits(tuning[0], fitting=True)
    y = check_labels(tuning[1], *z.shape, accepts_ood=True)
    z_test = check_logits(test[0], n_classes=z.shape[1])
    y_test = check_labels(test[1], *z_test.shape, accepts_ood=True)
    check_some_known(y)
    check_some_known(y_test)
    groups = None if environment is None else check_environment(environment, y, None)
    tuned = _Tuning(z, y, groups)
    measured: list[_Measured] = []
    failed: dict[str, str] = {}
    for name, calibrator in calibrators.items():
        if progress is not None:
            progress(name)
        try:
            measured.append(_measure(name, calibrator, tuned, z_test, y_test, n_bins, n_boot))
        except (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
            failed[name] = str(error)
    if not measured:
        return Comparison((), failed)
    measured.sort(key=lambda m: m.evaluation["excess_ece"])
    best = min(measured, key=lambda m: m.evaluation["ece"])
    known = y_test != OOD_LABEL
    right = predicted_class(z_test)[known] == y_test[known]
    return Comparison(tuple(m.beside(best, right, known, n_bins, n_boot) for m in measured), failed)


def _behind(method: Compared) -> str:
    if not method.behind_best:
        return "best"
    interval = method.behind_best_interval
    unsure = " (not sure)" if interval is not None and interval.low <= 0 else ""
    return f"+{number(method.behind_best)}{unsure}"


@dataclass(slots=True)
class _Measured:
    name: str
    calibrator: Calibrator
    used: str
    seconds: float
    evaluation: Evaluation
    confidence: Any
    class_changes: float

    def beside(
        self, best: "_Measured", right: Any, known: Any, n_bins: int, n_boot: int
    ) -> Compared:
        behind = None
        if self is not best and n_boot:
            behind = paired_difference(
                right,
                self.confidence[known],
                right,
                best.confidence[known],
                n_bins=n_bins,
                n_boot=n_boot,
            )
        return Compared(
            name=self.name,
            title=self.calibrator.title,
            used=self.used,
            preserves_accuracy=self.calibrator.preserves_accuracy,
            class_changes=self.class_changes,
            fit_seconds=self.seconds,
            converged=self.calibrator.fit_.converged,
            notes=self.calibrator.fit_.notes,
            evaluation=self.evaluation,
            behind_best=self.evaluation["ece"] - best.evaluation["ece"],
            behind_best_interval=behind,
        )


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The rows that all methods are fitted on, each with as much of them as it can use."""

    z: Logits
    y: Labels
    environment: Labels | None

    def fit(self, calibrator: Calibrator) -> None:
        mine = self._rows(calibrator)
        more: dict[str, Any] = {}
        if "environment" in calibrator.reads and self.environment is not None:
            more["environment"] = self.environment[mine]
        calibrator.fit(self.z[mine], self.y[mine], **more)

    def used(self, calibrator: Calibrator) -> str:
        """Return in words what a method knew when it was fitted."""
        if type(calibrator).name == "identity":
            return "nothing"
        words = ["labels"]
        if calibrator.accepts_ood and (self.y == OOD_LABEL).any():
            words.append("OOD rows")
        if "environment" in calibrator.reads:
            sets = self._shifted_sets()
            words.append(f"{sets} shifted set{'s' * (sets > 1)}" if sets else "no shifted sets")
        if "window" in calibrator.reads:
            learnt = calibrator.uses_window
            words.append("no test window" if learnt else "so energy scaling without a context")
        return ", ".join(words)

    def _rows(self, calibrator: Calibrator) -> Any:
        known = self.y != OOD_LABEL
        # A slice where all rows serve, so that they are not copied.
        return slice(None) if calibrator.accepts_ood or known.all() else known

    def _shifted_sets(self) -> int:
        if self.environment is None:
            return 0
        numbers = np.unique(self.environment[self.y != OOD_LABEL])
        return int((numbers > 0).sum())


def _measure(
    name: str,
    calibrator: Calibrator,
    tuning: _Tuning,
    z_test: Logits,
    y_test: Labels,
    n_bins: int,
    n_boot: int,
) -> _Measured:
    start = time.perf_counter()
    with warnings.catch_warnings():  # they are in the summary, which the comparison hands on
        warnings.simplefilter("ignore", CalibrationWarning)
        tuning.fit(calibrator)
    seconds = time.perf_counter() - start
    return _Measured(
        name=name,
        calibrator=calibrator,
        used=tuning.used(calibrator),
        seconds=seconds,
        evaluation=evaluate_calibrator(calibrator, z_test, y_test, n_bins=n_bins, n_boot=n_boot),
        confidence=np.minimum(calibrator.confidence(z_test), 1),
        class_changes=0.0 if calibrator.preserves_accuracy else _changes(calibrator, z_test),
    )


def _changes(calibrator: Calibrator, logits: Logits) -> float:
    changed = 0
    for piece in row_slices(logits, 1 << 20):
        rows = logits[piece]
        changed += int((calibrator.predict_proba(rows).argmax(1) != predicted_class(rows)).sum())
    return changed / len(logits)
