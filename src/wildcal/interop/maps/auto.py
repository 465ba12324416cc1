"""The safe mixture: the maps of its members, added up by their weights."""

from collections.abc import Callable, Collection

import numpy as np

from wildcal.calibrators import AutoCalibrator
from wildcal.core.calibrator import Calibrator
from wildcal.interop.maps.base import PROBABILITIES, Inputs, Map, Outputs
from wildcal.interop.maps.rows import Rows


class Together(Map):
    """p = Σ w_m p_m, divided by its sum: `auto`.

    Where no member shifts classes, the others are cut just below the predicted class first. Which
    members there are is part of the layout.
    """

    def __init__(
        self, calibrator: AutoCalibrator, make: Callable[[Calibrator, str], Map], prefix: str = ""
    ) -> None:
        super().__init__(calibrator, prefix)
        self.keep(weights=calibrator.weights_)
        self.members = [
            make(member, f"{prefix}member{i}_") for i, member in enumerate(calibrator.members_)
        ]
        for member in self.members:
            self.parameters |= member.parameters
        self.layout["keeps_class"] = calibrator.preserves_accuracy
        self.layout["members"] = [member.layout for member in self.members]

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return the mixture, added up member by member as in NumPy."""
        ops, weights = rows.ops, self.get(rows.ops, "weights")
        total = None
        for i, member in enumerate(self.members):
            weight = ops.take(weights, ops.constant(np.full((1, 1), i)))
            part = ops.wide(member.apply(rows, inputs, ())[PROBABILITIES]) * weight
            total = part if total is None else total + part
        total = ops.where(rows.ruled_out, 0.0, total)
        if self.layout["keeps_class"]:
            # ONNX Runtime takes a factor this close to one for no factor, so less is taken away.
            top = ops.pick(total, rows.pred)
            below = top - top * (2 * ops.eps)
            total = ops.where(rows.is_pred, total, ops.minimum(total, below))
        return {PROBABILITIES: ops.narrow(total / ops.row_sum(total))}
