"""Maps of the confidence: spline, histogram, isotonic, BBQ and beta."""

from abc import abstractmethod
from collections.abc import Collection

import numpy as np

from wildcal.calibrators import (
    BayesianBinning,
    BetaCalibration,
    HistogramBinning,
    SplineCalibration,
    TopLabelIsotonic,
)
from wildcal.calibrators.beta import EPS
from wildcal.interop.maps.base import PROBABILITIES, Inputs, Map, Outputs
from wildcal.interop.maps.ops import Ops, Tensor, clip
from wildcal.interop.maps.rows import Rows
from wildcal.interop.maps.tables import interpolate, last_below, slopes


class TopLabel(Map):
    """The predicted class gets q = f(confidence), the others share 1 - q; a method supplies f."""

    drops_rest = False

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return the probabilities."""
        ops = rows.ops
        rest, others, sums = rows.steady_others()
        # A table has an answer to NaN as well.
        q = rows.or_nan(self.map(ops, rest * -1.0 + 1.0))
        if self.drops_rest:
            return {PROBABILITIES: ops.narrow(ops.where(rows.is_pred, q, q * 0.0))}
        nothing = ops.less_equal(rest, ops.tiny)  # dividing by it could overflow
        others = ops.where(nothing, 1.0, others)
        sums = ops.where(nothing, float(self.n_classes - 1), sums)
        shared = others * ((q * -1.0 + 1.0) / sums)
        return {PROBABILITIES: ops.narrow(ops.where(rows.is_pred, q, shared))}

    @abstractmethod
    def map(self, ops: Ops, confidence: Tensor) -> Tensor:
        """Return f of confidences in float64, (n, 1)."""


class Piecewise(TopLabel):
    """F is linear between thresholds: `isotonic`, and `spline` unless its weights are swapped."""

    def __init__(self, calibrator: TopLabelIsotonic | SplineCalibration, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        if isinstance(calibrator, SplineCalibration):
            x, y = calibrator.scores_, calibrator.values_
            self.drops_rest = calibrator.fill == "zeros"
            self.layout |= {"fill": calibrator.fill, "interp": calibrator.interp}
        else:
            x, y = calibrator.thresholds_, calibrator.values_
        self.keep(thresholds=x, values=y, slopes=slopes(x, y))

    def map(self, ops: Ops, confidence: Tensor) -> Tensor:
        """Return f."""
        tables = tuple(self.get(ops, name) for name in ("thresholds", "values", "slopes"))
        at = ops.maximum(last_below(ops, tables[0], confidence, or_equal=True), 0)
        return clip(ops, interpolate(ops, confidence, tables, at), 0.0, 1.0)


class SwappedSpline(Piecewise):
    """`spline` with interp="reference": between scores the two weights are swapped."""

    def map(self, ops: Ops, confidence: Tensor) -> Tensor:
        """Return f."""
        exact = super().map(ops, confidence)
        scores, values = self.get(ops, "thresholds"), self.get(ops, "values")
        n = ops.length(scores)
        if n == 1:
            return exact
        at = clip(ops, last_below(ops, scores, confidence) + 1, 1, n - 1)
        left, right = ops.take(scores, at - 1), ops.take(scores, at)
        part = clip(ops, (confidence - left) / (right - left), 0.0, 1.0)
        swapped = part * ops.take(values, at - 1) + (part * -1.0 + 1.0) * ops.take(values, at)
        swapped = clip(ops, swapped, 0.0, 1.0)
        # At the ends and beyond, the value of the end holds.
        end = ops.constant(np.full((1, 1), n - 1))
        first = ops.take(scores, end * 0)
        swapped = ops.where(ops.less_equal(confidence, first), exact, swapped)
        return ops.where(ops.less_equal(ops.take(scores, end), confidence), exact, swapped)


class Histogram(TopLabel):
    """Q is the accuracy of a bin; an empty bin leaves the confidence as it is: `histogram`."""

    def __init__(self, calibrator: HistogramBinning, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        self.keep(
            edges=calibrator.edges,
            values=calibrator.values_,
            filled=(calibrator.weights_ > 0).astype(np.float64),
        )

    def map(self, ops: Ops, confidence: Tensor) -> Tensor:
        """Return f."""
        values = self.get(ops, "values")
        found = last_below(ops, self.get(ops, "edges"), confidence)
        at = clip(ops, found, 0, ops.length(values) - 1)
        filled = ops.less(0.5, ops.take(self.get(ops, "filled"), at))
        return ops.where(filled, ops.take(values, at), confidence)


class Steps(TopLabel):
    """F is a step function: `bbq`."""

    def __init__(self, calibrator: BayesianBinning, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        # An edge that every confidence is above: a table must not be empty.
        self.keep(edges=np.append(-1.0, calibrator.edges_), values=calibrator.values_)

    def map(self, ops: Ops, confidence: Tensor) -> Tensor:
        """Return f."""
        found = last_below(ops, self.get(ops, "edges"), confidence)
        return ops.take(self.get(ops, "values"), found)


class Beta(TopLabel):
    """Q = 1 / (1 + exp(-(a ln s - b ln(1 - s) + c))): `beta`."""

    def __init__(self, calibrator: BetaCalibration, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        self.keep(a=calibrator.a_, b=calibrator.b_, c=calibrator.c_)

    def map(self, ops: Ops, confidence: Tensor) -> Tensor:
        """Return f."""
        p = clip(ops, confidence, EPS, 1.0 - EPS)
        plus = ops.log(p) * self.get(ops, "a")
        minus = ops.log(p * -1.0 + 1.0) * self.get(ops, "b")  # 1 - p is exact in float64
        margin = plus - minus + self.get(ops, "c")
        return ops.exp(ops.softplus(margin * -1.0) * -1.0)
