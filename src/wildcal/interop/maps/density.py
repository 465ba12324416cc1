"""Density-aware calibration: the map of its base, behind logits that distances scale."""

from collections.abc import Callable, Collection

import numpy as np

from wildcal.calibrators import DensityAware
from wildcal.calibrators.density.weights import LARGEST_SCALE
from wildcal.core.calibrator import Calibrator
from wildcal.interop.maps.base import DISTANCES, TEMPERATURE, Inputs, Map, Outputs
from wildcal.interop.maps.ops import Tensor, clip
from wildcal.interop.maps.rows import Rows


class Scaled(Map):
    """p = base(z / S), S = w0 + Σ w_l s_l: `dac` and `dac+NAME`.

    The input `distances` has the squared distances s of each row, a column for each layer.
    """

    def __init__(self, calibrator: DensityAware, make: Callable[[Calibrator, str], Map]) -> None:
        super().__init__(calibrator)
        self.n_layers = calibrator.n_layers
        self.keep(weights=calibrator.weights_, offset=calibrator.offset_, floor=calibrator.floor)
        self.base = make(calibrator.base_, "base_")
        self.parameters |= self.base.parameters
        self.layout |= {"layers": self.n_layers, "base": self.base.layout}

    @property
    def gives(self) -> tuple[str, ...]:  # type: ignore[override]
        """What its base gives."""
        return self.base.gives

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """Distances, and what its base reads."""
        return (DISTANCES, *self.base.reads)

    def width(self, name: str) -> int | None:
        """Return the number of columns of an input or output."""
        return self.n_layers if name == DISTANCES else self.base.width(name)

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return what the base says of the scaled logits, its temperature times S."""
        ops = rows.ops
        scale = self._scale(rows, inputs)
        scaled = Rows(ops, rows.logits / ops.narrow(scale), self.n_classes)
        found = self.base.apply(scaled, inputs, wanted)
        if TEMPERATURE in found:
            found[TEMPERATURE] = found[TEMPERATURE] * scale
        return found

    def _scale(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return S, added up layer by layer as in NumPy."""
        ops = rows.ops
        distances, weights = ops.wide(inputs[DISTANCES]), self.get(ops, "weights")
        # Added to zeros, one for each row.
        total = ops.wide(rows.top) * 0.0 + self.get(ops, "offset")
        for layer in range(self.n_layers):
            weight = ops.take(weights, ops.constant(np.full((1, 1), layer)))
            total = total + ops.columns(distances, layer, layer + 1) * weight
        return clip(ops, total, self.get(ops, "floor"), LARGEST_SCALE)
