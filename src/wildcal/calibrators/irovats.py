"""IROvATS: temperature scaling, then an isotonic map for each class (Zhang et al., 2020)."""

from dataclasses import dataclass, field
from typing import final

from wildcal.calibrators.irova import bound_columns, check_columns, fit_columns
from wildcal.calibrators.piecewise import curves_of
from wildcal.calibrators.table_rows import NORMALIZE, Normalize, TableRow
from wildcal.calibrators.temperature import (
    BOUNDS,
    DEFAULT_BOUNDS,
    Bounds,
    as_bounds,
    bound_notes,
    fit_temperature,
)
from wildcal.core.arrays import FloatArray
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.checks import check_bounds, check_choice, check_temperature
from wildcal.core.one_row import RowMap
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, REAL, TEXT, Many, stored


@final
@dataclass(kw_only=True, eq=False)
class ScaledIsotonicOneVsAll(Calibrator):
    """p_k = f_k(softmax(z / T)_k): temperature scaling first, then one isotonic map per class.

    T minimizes the squared error of softmax(z / T); the f_k are those of `IsotonicOneVsAll`.

    Parameters
    ----------
    normalize
        As in `IsotonicOneVsAll`.
    bounds
        Range of T.

    Notes
    -----
    Dividing by T keeps the order within a row but not within a column, so the f_k differ from
    those without it. Zhang et al., ICML 2020 (IROvA-TS).

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right
    >>> ScaledIsotonicOneVsAll().fit(logits, y).predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    name = "irovats"
    title = "temperature scaling, then isotonic regression per class"
    reference = "Zhang et al., ICML 2020"
    stores = "1 number and a curve for each class"
    preserves_accuracy = False
    shift_invariant = True
    state = "thin"

    normalize: Normalize = field(default="row", metadata=stored(TEXT))
    bounds: Bounds = field(default=DEFAULT_BOUNDS, metadata=stored(BOUNDS))
    temperature_: float = field(init=False, repr=False, metadata=stored(REAL))
    thresholds_: list[FloatArray] = field(init=False, repr=False, metadata=stored(Many(ARRAY)))
    values_: list[FloatArray] = field(init=False, repr=False, metadata=stored(Many(ARRAY)))

    def _check_options(self) -> None:
        check_choice("normalize", self.normalize, NORMALIZE)
        check_bounds("bounds", as_bounds(self.bounds))

    def _check_fitted(self) -> None:
        check_temperature("temperature_", self.temperature_)
        check_columns(self.thresholds_, self.values_, self.n_classes_)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()
        fit = fit_temperature(logits, y, weight=weight, loss="mse", bounds=self.bounds)
        self.temperature_ = fit.temperature
        self.thresholds_, self.values_ = fit_columns(rows, fit.temperature)
        return FitSummary(
            loss="mse",
            iterations=fit.solution.iterations,
            converged=fit.solution.converged,
            notes=bound_notes(fit),
        )

    def _bind(self, rows: Rows) -> Bound:
        curves = curves_of(self)
        return bound_columns(rows.logits, curves, self.temperature_, self.normalize)

    def row_map(self) -> RowMap:
        """Return what says the same of one row in fewer calls."""
        return TableRow(self, 1.0 / self.temperature_, self.normalize, keeps_class=False)
