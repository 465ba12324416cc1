"""No calibration: the network's own softmax, the row every table starts with."""

from dataclasses import dataclass
from typing import final

import numpy as np

from wildcal._old.core.arrays import FloatArray
from wildcal._old.core.block import Block
from wildcal._old.core.bound import Bound, bound_constant
from wildcal._old.core.calibrator import FitSummary, TemperatureMap
from wildcal._old.core.one_row import RowMap, Tempered
from wildcal._old.core.rows import Rows


@final
@dataclass(kw_only=True, eq=False)
class Identity(TemperatureMap):
    """Return softmax(z) unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> logits, y = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    >>> Identity().fit(logits, y).predict_proba(logits).round(3)
    array([[0.881, 0.119],
           [0.269, 0.731]])
    """

    name = "identity"
    title = "no calibration"
    reference = "the network itself"
    stores = "nothing"
    shift_invariant = True
    state = "flat"

    def _fit(self, rows: Rows) -> FitSummary:
        return FitSummary()

    def _describe(self) -> list[str]:
        return ["The softmax of the logits, unchanged."]

    def _temperature(self, block: Block) -> FloatArray:
        return np.full(block.n, 1.0)

    def _bind(self, rows: Rows) -> Bound:
        return bound_constant(rows.logits, 1.0)

    def row_map(self) -> RowMap:
        """Return what says the same of one row in fewer calls."""
        return Tempered(1.0)
