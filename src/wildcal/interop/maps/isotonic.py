"""Isotonic maps of every class probability: `irm`, `irova` and `irovats`."""

from collections.abc import Collection

import numpy as np

from wildcal.calibrators import IsotonicMultiClass, IsotonicOneVsAll, ScaledIsotonicOneVsAll
from wildcal.calibrators.table_rows import TIE_BREAKER
from wildcal.interop.maps.base import PROBABILITIES, Inputs, Map, Outputs
from wildcal.interop.maps.ops import Ops, Tensor
from wildcal.interop.maps.rows import Rows
from wildcal.interop.maps.tables import interpolate, last_below, last_in_part, slopes


def as_rows(ops: Ops, values: Tensor, proba: Tensor, n_classes: int, normalize: bool) -> Tensor:
    """Return isotonic values with the tie-breaker; the counterpart of `isotonic_values`."""
    total = ops.row_sum(values) + TIE_BREAKER
    values = proba * TIE_BREAKER + values
    if normalize:
        empty = ops.less_equal(total, TIE_BREAKER)
        values = ops.where(empty, 1.0 / n_classes, values / total)
    return ops.narrow(ops.minimum(values, 1.0))


class MultiClass(Map):
    """One function for all classes: `irm`."""

    def __init__(self, calibrator: IsotonicMultiClass, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        x, y = calibrator.thresholds_, calibrator.values_
        self.keep(thresholds=x, values=y, slopes=slopes(x, y))
        self.layout["normalize"] = calibrator.normalize

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return f of every probability, the predicted class raised above its equals."""
        ops = rows.ops
        p = rows.steady_softmax()
        x, y, steep = (self.get(ops, name) for name in ("thresholds", "values", "slopes"))
        at = ops.maximum(last_below(ops, x, p, or_equal=True), 0)
        values = interpolate(ops, p, (x, y, steep), at)
        out = as_rows(ops, values, p, self.n_classes, self.layout["normalize"] == "row")
        # One unit in the last place, as there.
        top = ops.minimum(ops.row_max(out) * (1 + ops.eps), 1.0)
        return {PROBABILITIES: rows.or_nan(ops.where(rows.is_pred, top, out))}


class OneVsAll(Map):
    """A function for each class, their tables one after the other: `irova` and `irovats`."""

    def __init__(
        self, calibrator: IsotonicOneVsAll | ScaledIsotonicOneVsAll, prefix: str = ""
    ) -> None:
        super().__init__(calibrator, prefix)
        x, y = calibrator.thresholds_, calibrator.values_
        lengths = np.array([len(one) for one in x])
        self.keep(
            thresholds=np.concatenate(x),
            values=np.concatenate(y),
            slopes=np.concatenate([slopes(a, b) for a, b in zip(x, y, strict=True)]),
            # As rows, beside those of the logits.
            first=(np.cumsum(lengths) - lengths)[None, :],
            last=(np.cumsum(lengths) - 1)[None, :],
            # Of the search; how many there are is what counts.
            steps=1 << np.arange(int(lengths.max()).bit_length()),
        )
        if isinstance(calibrator, ScaledIsotonicOneVsAll):
            self.keep(beta=1 / calibrator.temperature_)
        self.layout["normalize"] = calibrator.normalize

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return f_k of the probability of class k."""
        ops = rows.ops
        scaled = self.prefix + "beta" in self.parameters
        p = rows.steady_softmax(self.get(ops, "beta") if scaled else None)
        x, y, steep = (self.get(ops, name) for name in ("thresholds", "values", "slopes"))
        first, last = self.get(ops, "first"), self.get(ops, "last")
        rounds = ops.length(self.get(ops, "steps"))
        found = last_in_part(ops, x, p, first, last, rounds, or_equal=True)
        at = ops.maximum(found, first)
        values = interpolate(ops, p, (x, y, steep), at)
        out = as_rows(ops, values, p, self.n_classes, self.layout["normalize"] == "row")
        return {PROBABILITIES: rows.or_nan(out)}
