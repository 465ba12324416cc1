"""IRM: one isotonic regression for all classes at once (Zhang et al., 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import final

import numpy as np

from wildcal.calibrators.gaps import GapCounter, fit_in_ranges
from wildcal.calibrators.ones import SmallestOnes
from wildcal.calibrators.pairs import for_each_chunk, label_pieces
from wildcal.calibrators.pava import check_thresholds
from wildcal.calibrators.piecewise import curves_of
from wildcal.calibrators.table_rows import (
    NORMALIZE,
    Normalize,
    TableRow,
    finished,
    isotonic_tops,
    isotonic_values,
    raised,
)
from wildcal.core.arrays import FloatArray, Proba
from wildcal.core.block import Block
from wildcal.core.bound import Bound
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.checks import check_choice
from wildcal.core.one_row import RowMap
from wildcal.core.room import ones_at_once
from wildcal.core.rows import Rows
from wildcal.core.stored import ARRAY, TEXT, stored


@final
@dataclass(kw_only=True, eq=False)
class IsotonicMultiClass(Calibrator):
    """p_k = f(softmax(z)_k) with one non-decreasing f for all classes.

    f is the isotonic regression of 1[y = k] on softmax(z)_k over all N x K pairs: linear between
    its thresholds, constant outside them.

    Parameters
    ----------
    normalize
        "row" (default): rows are divided by their sum, and a row that f sends to zero everywhere
        becomes uniform. "none": the published numbers f + 1e-9 softmax(z), whose rows do not sum
        to one, cut at 1 (uncut they exceed it, and published bins then drop such rows).

    Notes
    -----
    f does not decrease, so the classes keep their order; where rounding or a plateau makes
    others equal to the predicted class, it is raised by one unit in the last place.

    The fit is exact and needs little memory: each block of an isotonic regression of 0/1 targets
    begins at a one, so only the number of pairs between neighboring ones matters. Pairs are
    merged where their probabilities are equal to the last bit. scikit-learn also merges those
    within 1e-15 (1e-6 in float32, where it sums in float32); otherwise the two agree to rounding.
    With logits on a coarse grid, as int8 networks give them, rounding of the softmax therefore
    decides about ties, and the curve may move a little when the classes are reordered.

    Zhang et al., Mix-n-Match: ensemble and compositional methods for uncertainty calibration in
    deep learning, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    >>> y = np.array([0, 0, 0, 1])  # 75 % right
    >>> IsotonicMultiClass().fit(logits, y).predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    name = "irm"
    title = "isotonic regression over all classes"
    reference = "Zhang et al., ICML 2020"
    stores = "a step for each rise of the curve"
    preserves_accuracy = True
    shift_invariant = True
    state = "thin"

    normalize: Normalize = field(default="row", metadata=stored(TEXT))
    thresholds_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))
    values_: FloatArray = field(init=False, repr=False, metadata=stored(ARRAY))

    def _check_options(self) -> None:
        check_choice("normalize", self.normalize, NORMALIZE)

    def _check_fitted(self) -> None:
        check_thresholds(self.thresholds_, self.values_)

    def _fit(self, rows: Rows) -> FitSummary:
        logits, y, weight = rows.tuning()

        def collect(ones: Sequence[SmallestOnes]) -> None:
            for x, _, w in label_pieces(logits, y, weight):
                ones[0].add(x, w)

        def count(gaps: Sequence[GapCounter]) -> None:
            gap = gaps[0]

            def take(proba: Proba, row_weight: FloatArray | None, lock: Lock) -> None:
                x, w = proba.reshape(-1), None
                if row_weight is None:
                    if not gap.is_whole:  # sorting is most of the work
                        x = x[(x >= gap.low) & (x < gap.high)]
                    x.sort()
                else:  # how equal ones lie in an order depends on all the others
                    order = np.argsort(x)
                    x, w = x[order], np.repeat(row_weight, proba.shape[1])[order]
                with lock:
                    gap.add(x, w)

            for_each_chunk(logits, weight, take)

        fitted = fit_in_ranges(1, ones_at_once(rows), collect, count)
        self.thresholds_, self.values_ = fitted[0]
        return FitSummary(loss="mse")

    def _bind(self, rows: Rows) -> Bound:
        f = curves_of(self)

        def fill(block: Block, out: Proba) -> None:
            values, total = isotonic_values(block, 1.0, f, self.normalize)
            chosen = np.asarray(block.entry(values, block.pred()), np.float64)
            top = self._top(block, chosen, total)
            block.write(finished(block, values, total), out)
            out[np.arange(block.n), block.pred()] = top

        def confidence(block: Block) -> FloatArray:
            return self._top(block, *isotonic_tops(block, 1.0, f, self.normalize))

        return Bound(rows.logits, fill, confidence)

    def row_map(self) -> RowMap:
        """Return what says the same of one row in fewer calls."""
        return TableRow(self, 1.0, self.normalize, keeps_class=True)

    def _top(self, block: Block, values: FloatArray, total: FloatArray | None) -> FloatArray:
        """Return the probability of each predicted class, whose values these are, and a bit more.

        f does not decrease, so they are the largest of their rows.
        """
        top = finished(block, values, total).astype(block.top.dtype)
        return raised(top).astype(np.float64)
