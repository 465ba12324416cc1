"""The first form of context scaling, its context an input that adds up from what the map says."""

import numpy as np

from wildcal.calibrators import FirstContextScaling
from wildcal.calibrators.context.environments import LEAST_CHANGE, MOST_CHANGE, PRIOR_ROWS
from wildcal.calibrators.context.features import CONFIDENCE, ENERGY, LARGEST, MARGIN
from wildcal.interop.maps.base import CONTEXT, Inputs
from wildcal.interop.maps.ops import Ops, Tensor, clip
from wildcal.interop.maps.rows import Rows
from wildcal.interop.maps.temperatures import Energy
from wildcal.interop.maps.windows import WindowScaling


class FirstInContext(WindowScaling):
    """T = softplus(b + w · [m, g_e, g_c, -g_c r]): `context-1`."""

    sums = 2

    def __init__(self, calibrator: FirstContextScaling, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        low, high = calibrator.bounds
        self.keep(
            clean_mean=calibrator.clean_mean_,
            clean_std=calibrator.clean_std_,
            clean_beta=1 / calibrator.clean_temperature_,
            clean_same_class=calibrator.clean_same_class_,
        )
        # Where nothing was learned of contexts, each row is read alone, by energy scaling.
        self.fallback = None
        if calibrator.fallback_ is not None:
            self.fallback = Energy(calibrator.fallback_, prefix + "fallback_")
            self.parameters |= self.fallback.parameters
        else:
            self.keep(coefficients=calibrator.coefficients_, low=low, high=high)
        self.layout["fallback"] = self.fallback is not None

    def temperature(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return T."""
        if self.fallback is not None:
            return self.fallback.temperature(rows, inputs)
        ops = rows.ops
        b, w, *more = (self._entry(ops, "coefficients", i) for i in range(5))
        if CONTEXT in inputs:
            b = self._offset(ops, ops.wide(inputs[CONTEXT]), more) + b
        return self.softplus(ops, self._in_units(ops, rows.margin, MARGIN) * w + b)

    def _entry(self, ops: Ops, name: str, i: int) -> Tensor:
        return ops.take(self.get(ops, name), ops.constant(np.full((1, 1), i)))

    def _in_units(self, ops: Ops, raw: Tensor, feature: int) -> Tensor:
        """Return a feature in units of the clean rows, within limits."""
        mean, std = (self._entry(ops, name, feature) for name in ("clean_mean", "clean_std"))
        return clip(ops, (raw - mean) / std, -LARGEST, LARGEST)

    def _offset(self, ops: Ops, context: Tensor, coefficients: list[Tensor]) -> Tensor:
        """Return what a context adds to b; one of no rows adds nothing."""
        n = ops.columns(context, 0, 1)
        counts = self.counts(ops, context)
        some, pairs = ops.maximum(n, 1.0), ops.maximum(n * (n - 1.0), 1.0)
        belief = n / (n + PRIOR_ROWS)
        g_e = ops.columns(context, 1, 2) / some * belief
        g_c = ops.columns(context, 2, 3) / some * belief
        same = ops.row_sum(counts * (counts - 1.0)) / pairs
        surplus = same / self.get(ops, "clean_same_class") - 1.0
        # One row makes no pair, and says nothing about classes.
        surplus = ops.where(ops.less(1.0, n), surplus, 0.0)
        r = clip(ops, surplus * belief, LEAST_CHANGE, MOST_CHANGE)
        e, c, cr = coefficients
        return g_e * e + g_c * c - g_c * r * cr

    def features(self, rows: Rows) -> list[Tensor]:
        """Return energy and confidence in units of the clean rows."""
        ops = rows.ops
        energy = self._in_units(ops, rows.energy * -1.0, ENERGY)
        confidence = rows.confidence(self.get(ops, "clean_beta"))
        return [energy, self._in_units(ops, confidence, CONFIDENCE)]
