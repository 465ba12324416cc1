"""Several methods, fitted on one tuning set and measured on the same test rows."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.bridge import Bridged, wrap
from wildcal._old.core.arrays import OOD_LABEL
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import added, map_blocks
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.columns import added_counts, map_columns
from wildcal._old.core.errors import CalibrationWarning
from wildcal._old.core.room import loaded_for
from wildcal._old.core.rows import Rows, check_rows, is_source, own_column
from wildcal._old.evaluation.behind import Behind, behind
from wildcal._old.evaluation.evaluate import evaluate, look_at, summarize
from wildcal._old.evaluation.flat import summarize_tally, tally
from wildcal._old.evaluation.knew import Knew, Lack
from wildcal._old.evaluation.views import Compared, Comparison, Evaluation
from wildcal._old.metrics.registry import choose_metrics

Progress = Callable[[str], None]
"""Called with the name of the method that is next, before its fit."""


def compare(
    calibrators: Mapping[str, Calibrator],
    tuning: Any,
    test: Any,
    *,
    environment: ArrayLike | None = None,
    proba: ArrayLike | None = None,
    pred: ArrayLike | None = None,
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
        Logits and labels, or a source that has labels. Rows with label -1 reach the methods that
        use them and no others.
    test
        The same; rows with label -1 count for the out-of-distribution metrics. `window` takes all
        rows as one window.
    environment
        Environment of each tuning row, 0 for clean ones. It reaches the methods that read
        environments; to the others, the rows are one set.
    proba, pred
        Where the test logits were made of probabilities, these and, if it is known, the class that
        was predicted: `identity` is measured on them. The softmax of the logits is no longer what
        the model said, where zeros were lifted.
    n_bins, n_boot
        As in `evaluate`.
    progress
        Called with each name before its fit.

    Examples
    --------
    >>> from wildcal import Identity, TemperatureScaling
    >>> from wildcal._old.testing import make_suite
    >>> suite = make_suite(seed=0, n_tuning=1000, n_test=1000)
    >>> methods = {"none": Identity(), "ts": TemperatureScaling()}
    >>> [m.name for m in compare(methods, suite.tuning, suite.shifted, n_boot=20).methods]
    ['ts', 'none']
    """
    rows = _rows(tuning, environment=environment)
    tested = _rows(test, n_classes=rows.n_classes)
    given = None
    if proba is not None:
        given = evaluate(tested.labels, proba, pred=pred, n_bins=n_bins, n_boot=n_boot)
    measured: list[_Measured] = []
    failed: dict[str, str] = {}
    for name, given_calibrator in calibrators.items():
        calibrator = wrap(given_calibrator)
        if progress is not None:
            progress(name)
        try:
            found = _measure(name, calibrator, rows, tested, n_bins, n_boot)
            if given is not None and calibrator.name == "identity":
                found = replace(found, evaluation=given)
            measured.append(found)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
            failed[name] = str(error)
    measured.sort(key=lambda m: m.evaluation["ece"])
    return Comparison(tuple(m.beside(measured[0]) for m in measured), failed)


def _rows(given: Any, **options: Any) -> Rows:
    """Return rows that were given as logits and labels, or as a source that has both."""
    if not is_source(given):
        return check_rows(given[0], y=given[1], **options)
    if own_column(given, "y") is None:
        raise ValueError("a source must have labels to be compared on.")
    if "environment" in options:
        options["environment"] = own_column(given, "environment")
    return check_rows(given, y=own_column(given, "y"), **options)


@dataclass(frozen=True, slots=True)
class _Measured:
    name: str
    calibrator: Calibrator
    knew: Knew
    seconds: float
    evaluation: Evaluation
    class_changes: float

    def beside(self, best: "_Measured") -> Compared:
        mine, first = self.evaluation, best.evaluation
        gap = Behind(0.0, is_best=True)
        if self is not best:
            drawn = mine.drawn.get("ece"), first.drawn.get("ece")
            gap = behind(mine["ece"], first["ece"], *drawn, level=mine.level)
        return Compared(
            name=self.name,
            title=self.calibrator.title,
            knew=self.knew,
            preserves_accuracy=self.calibrator.preserves_accuracy,
            class_changes=self.class_changes,
            fit_seconds=self.seconds,
            converged=self.calibrator.fit_.converged,
            notes=self.calibrator.fit_.notes,
            evaluation=self.evaluation,
            behind=gap,
        )


def _measure(
    name: str, calibrator: Calibrator, tuning: Rows, tested: Rows, n_bins: int, n_boot: int
) -> _Measured:
    mine = _usable(tuning, calibrator)
    start = time.perf_counter()
    calibrator.check_options()
    with warnings.catch_warnings():  # they are in the summary, which the comparison hands on
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit_rows(mine)
    seconds = time.perf_counter() - start
    metrics = choose_metrics(n_classes=tested.n_classes)
    if tested.in_memory:
        seen = look_at(calibrator, tested, metrics, n_bins=n_bins)
        evaluation = summarize(seen, metrics, n_boot, 0.95)
    else:
        (found,) = tally(tested, [calibrator.bind(tested)], metrics, n_bins)
        evaluation = summarize_tally(found, metrics, n_bins, 0.95)
    return _Measured(
        name=name,
        calibrator=calibrator,
        knew=_knew(mine, calibrator),
        seconds=seconds,
        evaluation=evaluation,
        class_changes=0.0 if calibrator.preserves_accuracy else _changes(calibrator, tested),
    )


def _usable(rows: Rows, calibrator: Calibrator) -> Rows:
    """Return as much of the tuning rows as a method can use."""
    if "environment" not in calibrator.reads:
        rows = replace(rows, environment=None)
    if calibrator.accepts_ood or not rows.n_ood:
        return rows
    rows = loaded_for(rows, f"{type(calibrator).__name__} leaves out rows of other classes, so it")
    return rows[rows.labels != OOD_LABEL]


def _knew(rows: Rows, calibrator: Calibrator) -> Knew:
    """Return what a method knew when it was fitted."""
    if calibrator.name == "identity":
        return Knew()
    labeled, lacked = len(rows) - rows.n_ood, list[Lack]()
    sizes: tuple[int, ...] = ()
    if "environment" in calibrator.reads:
        if rows.environment is not None:
            counts = map_columns(
                lambda e, y: np.bincount(e[y != OOD_LABEL], minlength=1),
                rows.environment, rows.labels, combine=added_counts,
            )  # fmt: skip
            labeled, sizes = int(counts[0]), tuple(int(n) for n in counts[1:] if n)
        lacked += [] if sizes or "environment" in calibrator.can_do_without else ["shifted"]
    adapts = "window" in calibrator.reads and isinstance(calibrator, Bridged)
    if "window" in calibrator.reads and not adapts:
        lacked.append("window")
    return Knew(
        labels=labeled,
        ood=rows.n_ood,
        shifted=sizes,
        window="whole" if adapts else None,
        lacked=tuple(lacked),
    )


def _changes(calibrator: Calibrator, rows: Rows) -> float:
    """Return the share of rows whose most probable class is not that of the logits."""
    bound = calibrator.bind(rows)

    def changed(block: Block) -> int:
        out: Any = np.empty(block.original.shape, np.result_type(rows.logits.dtype, np.float32))
        bound.fill(block, out)
        return int((out.argmax(axis=1) != block.pred()).sum())

    return float(map_blocks(bound.logits, changed, added) / len(rows))
