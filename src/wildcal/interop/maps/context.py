"""Context-aware energy scaling, its context an input that adds up from what the map gives out."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from wildcal.calibrators import Context, ContextScaling
from wildcal.calibrators.context.environments import LEAST_CHANGE, MOST_CHANGE, PRIOR_ROWS
from wildcal.calibrators.context.features import CONFIDENCE, ENERGY, LARGEST, MARGIN
from wildcal.interop.maps.base import CONTEXT, STATISTICS, TEMPERATURE, Inputs, Outputs
from wildcal.interop.maps.ops import Ops, Tensor, clip
from wildcal.interop.maps.rows import Rows
from wildcal.interop.maps.temperatures import Energy, Scaling

# A context as numbers: rows, sum of energies, sum of confidences, then a count for each class.
_SUMS = 3


def context_vector(context: Context) -> NDArray[np.float64]:
    """Return a context as the row of numbers, shape (1, 3 + K), that modules and graphs read.

    >>> context_vector(Context(n=2, energy=-1.0, confidence=-3.0, counts=(2, 0)))
    array([[ 2., -1., -3.,  2.,  0.]])
    """
    sums = (context.n, context.energy, context.confidence)
    return np.array([[*sums, *context.counts]], np.float64)


class InContext(Scaling):
    """T = softplus(b + w · [m, g_e, g_c, -g_c r]): `context`.

    The input `context` has a row of 3 + K numbers for all rows, or one for each of them; zeros are
    the clean context. The output `statistics` has such a row for each row of logits: added up over
    the rows of a window, they are its context.
    """

    gives = (TEMPERATURE, STATISTICS)
    reads = (CONTEXT,)

    def __init__(self, calibrator: ContextScaling, prefix: str = "") -> None:
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

    def width(self, name: str) -> int | None:
        """Return the number of columns of an input or output."""
        wide = name in (CONTEXT, STATISTICS)
        return _SUMS + self.n_classes if wide else super().width(name)

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return the probabilities, the temperature and what a context is made of."""
        found = super().apply(rows, inputs, wanted)
        if STATISTICS in wanted:
            found[STATISTICS] = self._statistics(rows)
        return found

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
        counts = ops.columns(context, _SUMS, _SUMS + self.n_classes)
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

    def _statistics(self, rows: Rows) -> Tensor:
        """Return what each row adds to the context of a window."""
        ops = rows.ops
        energy = self._in_units(ops, rows.energy * -1.0, ENERGY)
        confidence = rows.confidence(self.get(ops, "clean_beta"))
        confidence = self._in_units(ops, confidence, CONFIDENCE)
        sums = ops.side_by_side([energy * 0.0 + 1.0, energy, confidence])
        counts = ops.where(rows.is_pred, 1.0, rows.shifted * 0.0)
        return ops.side_by_side([ops.narrow(sums), counts])
