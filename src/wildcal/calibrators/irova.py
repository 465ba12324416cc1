"""IROvA: one isotonic regression for each class (Zadrozny and Elkan, 2002)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import final

import numpy as np

from wildcal.calibrators.gaps import GapCounter, fit_in_ranges
from wildcal.calibrators.ones import SmallestOnes
from wildcal.calibrators.pairs import for_each_chunk, label_pieces
from wildcal.calibrators.pava import Thresholds, check_thresholds
from wildcal.calibrators.piecewise import Curves, curves_of
from wildcal.calibrators.table_rows import (
    NORMALIZE,
    Normalize,
    TableRow,
    finished,
    isotonic_tops,
    isotonic_values,
)
from wildcal.core.arrays import FloatArray, Proba, Source
from wildcal.core.block import Block
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.checks import check_choice
from wildcal.core.columns import map_columns
from wildcal.core.one_row import RowMap
from wildcal.core.room import ones_at_once
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, TEXT, Many, stored


def fit_columns(rows: Rows, temperature: float) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return thresholds and values of each class's isotonic regression on softmax(z / T)."""
    most = ones_at_once(rows)
    maps: list[Thresholds] = []
    for classes in _together(rows, most):
        maps += _fit_classes(rows, classes, temperature, most)
    return [x for x, _ in maps], [f for _, f in maps]


def _together(rows: Rows, most: int) -> Iterator[slice]:
    """Yield neighboring classes that have at most so many rows together, or single ones."""
    if len(rows) <= most:
        yield slice(0, rows.n_classes)
        return
    counts = map_columns(lambda y: np.bincount(y, minlength=rows.n_classes), rows.labels)
    first, held = 0, 0
    for k, count in enumerate(counts.tolist()):
        if k > first and held + count > most:
            yield slice(first, k)
            first, held = k, 0
        held += count
    yield slice(first, rows.n_classes)


def _fit_classes(rows: Rows, classes: slice, temperature: float, most: int) -> list[Thresholds]:
    logits, labels, weight = rows.tuning()

    def collect(ones: Sequence[SmallestOnes]) -> None:
        for x, y, w in label_pieces(logits, labels, weight, temperature):
            order = np.argsort(y, kind="stable")  # in a class, rows stay in their order
            bounds = np.searchsorted(y, np.arange(classes.start, classes.stop + 1), sorter=order)
            for one, start, stop in zip(ones, bounds[:-1], bounds[1:], strict=True):
                mine = order[start:stop]
                one.add(x[mine], None if w is None else w[mine])

    def count(gaps: Sequence[GapCounter]) -> None:
        def take(proba: Proba, row_weight: FloatArray | None, lock: Lock) -> None:
            columns, w = np.ascontiguousarray(proba.T[classes]), None
            order = None if row_weight is None else columns.argsort(axis=1)
            columns.sort(axis=1)
            with lock:
                for k, (gap, column) in enumerate(zip(gaps, columns, strict=True)):
                    if row_weight is not None and order is not None:
                        w = row_weight[order[k]]
                    gap.add(column, w)

        for_each_chunk(logits, weight, take, temperature)

    return fit_in_ranges(classes.stop - classes.start, most, collect, count)


def bound_columns(
    logits: Source, curves: Curves, temperature: float, normalize: Normalize
) -> Bound:
    """Return each column of softmax(z / T) mapped by its own piecewise-linear function."""

    def fill(block: Block, out: Proba) -> None:
        values, total = isotonic_values(block, beta, curves, normalize)
        block.write(finished(block, values, total), out)

    def confidence(block: Block) -> FloatArray:
        return finished(block, *isotonic_tops(block, beta, curves, normalize))

    beta = 1.0 / temperature
    return Bound(logits, fill, confidence)


def check_columns(thresholds: list[FloatArray], values: list[FloatArray], n_classes: int) -> None:
    """Raise a ValueError unless there is one good map for each class."""
    if not len(thresholds) == len(values) == n_classes:
        raise ValueError(
            f"there must be {n_classes} maps, got {len(thresholds)} and {len(values)}."
        )
    for x, f in zip(thresholds, values, strict=True):
        check_thresholds(x, f)


@final
@dataclass(kw_only=True, eq=False)
class IsotonicOneVsAll(Calibrator):
    """p_k = f_k(softmax(z)_k) with a non-decreasing f_k for each class.

    f_k is the isotonic regression of 1[y = k] on softmax(z)_k, linear between its thresholds and
    constant outside them. A class that is absent from the tuning rows has f_k = 0.

    Parameters
    ----------
    normalize
        "row" (default): rows are divided by their sum, and a row that is zero everywhere becomes
        uniform. "none": the published numbers f_k + 1e-9 softmax(z)_k, whose rows do not sum to
        one, cut at 1.

    Notes
    -----
    Each class learns from its own few ones: with 1000 classes this overfits, and the most
    probable class may change. Zadrozny and Elkan, Transforming classifier scores into accurate
    multiclass probability estimates, KDD 2002; the interpolation and the 1e-9 are those of Zhang
    et al., ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right
    >>> IsotonicOneVsAll().fit(logits, y).predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    name = "irova"
    title = "isotonic regression, one class against the others"
    reference = "Zadrozny and Elkan, KDD 2002"
    stores = "a curve for each class"
    preserves_accuracy = False
    shift_invariant = True
    state = "thin"

    normalize: Normalize = field(default="row", metadata=stored(TEXT))
    thresholds_: list[FloatArray] = field(init=False, repr=False, metadata=stored(Many(ARRAY)))
    values_: list[FloatArray] = field(init=False, repr=False, metadata=stored(Many(ARRAY)))

    def _check_options(self) -> None:
        check_choice("normalize", self.normalize, NORMALIZE)

    def _check_fitted(self) -> None:
        check_columns(self.thresholds_, self.values_, self.n_classes_)

    def _fit(self, rows: Rows) -> FitSummary:
        self.thresholds_, self.values_ = fit_columns(rows, 1.0)
        return FitSummary(loss="mse")

    def _bind(self, rows: Rows) -> Bound:
        curves = curves_of(self)
        return bound_columns(rows.logits, curves, 1.0, self.normalize)

    def row_map(self) -> RowMap:
        """Return what says the same of one row in fewer calls."""
        return TableRow(self, 1.0, self.normalize, keeps_class=False)
