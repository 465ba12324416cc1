"""softmax(W x + b): vector, matrix, Dirichlet and structured scaling."""

from collections.abc import Collection

import numpy as np

from wildcal.calibrators import (
    DirichletCalibration,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
)
from wildcal.calibrators.linear_map import LARGEST_LOGIT, LOG_TINY
from wildcal.interop.maps.base import PROBABILITIES, Inputs, Map, Outputs
from wildcal.interop.maps.ops import Tensor, clip
from wildcal.interop.maps.rows import Rows


class LinearSoftmax(Map):
    """One map for five methods: x is the logits, their log softmax, or a log mixture."""

    def __init__(
        self,
        calibrator: VectorScaling
        | MatrixScaling
        | DirichletCalibration
        | StructuredVectorScaling
        | StructuredMatrixScaling,
        prefix: str = "",
    ) -> None:
        super().__init__(calibrator, prefix)
        self.keep(intercept=calibrator.intercept_)
        if isinstance(calibrator, VectorScaling | StructuredVectorScaling):
            self.keep(scale=calibrator.scale_)
        else:
            self.keep(matrix=calibrator.matrix_.T)
        if isinstance(calibrator, StructuredVectorScaling | StructuredMatrixScaling):
            uniform = calibrator.uniform_
            self.keep(
                temperature=calibrator.temperature_,
                scaled=1 - uniform,
                uniform=uniform / self.n_classes,
            )
            self._features = self._log_mixture
        elif isinstance(calibrator, DirichletCalibration):
            self._features = self._log_softmax
        else:
            self._features = self._raw

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return softmax(W x + b), all in float64; a class at -inf keeps probability zero."""
        ops = rows.ops
        x = self._features(rows)
        if self.prefix + "scale" in self.parameters:
            scores = x * self.get(ops, "scale")
        else:
            scores = ops.matmul(x, self.get(ops, "matrix"))
        scores = ops.where(rows.ruled_out, -np.inf, scores + self.get(ops, "intercept"))
        return {PROBABILITIES: rows.or_nan(ops.narrow(ops.softmax(scores)))}

    def _raw(self, rows: Rows) -> Tensor:
        """Return the logits; -inf, which no weight can work with, as the row's lowest."""
        ops = rows.ops
        x = clip(ops, ops.wide(rows.logits), -LARGEST_LOGIT, LARGEST_LOGIT)
        lowest = ops.row_min(ops.where(rows.ruled_out, np.inf, x))
        return ops.where(rows.ruled_out, lowest, x)

    def _log_softmax(self, rows: Rows) -> Tensor:
        ops = rows.ops
        log_sum = ops.log(ops.row_sum(ops.exp(rows.wide_shifted)))
        return ops.maximum(rows.wide_shifted - log_sum, LOG_TINY)

    def _log_mixture(self, rows: Rows) -> Tensor:
        ops = rows.ops
        e = ops.exp(rows.wide_shifted / self.get(ops, "temperature"))
        p = e * (self.get(ops, "scaled") / ops.row_sum(e))
        return ops.log(p + self.get(ops, "uniform"))
