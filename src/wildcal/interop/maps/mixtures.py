"""Maps that mix distributions: `ets` and `tsmix`."""

from collections.abc import Collection

from wildcal.calibrators import EnsembleTemperatureScaling, TemperatureMix
from wildcal.interop.maps.base import PROBABILITIES, Inputs, Map, Outputs
from wildcal.interop.maps.rows import Rows


class Mixture(Map):
    """p = w0 softmax(z / T) + w1 softmax(z) + w2 / K; `tsmix` has no w1."""

    def __init__(
        self, calibrator: EnsembleTemperatureScaling | TemperatureMix, prefix: str = ""
    ) -> None:
        super().__init__(calibrator, prefix)
        if isinstance(calibrator, TemperatureMix):
            scaled, uniform = 1 - calibrator.uniform_, calibrator.uniform_
        else:
            scaled, raw, uniform = calibrator.weights_
            self.keep(raw=raw)
        self.keep(
            beta=1 / calibrator.temperature_,
            scaled=scaled,
            uniform=uniform,
        )

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return the mixture."""
        ops = rows.ops
        p = rows.softmax(self.get(ops, "beta")) * ops.narrow(self.get(ops, "scaled"))
        if self.prefix + "raw" in self.parameters:
            p = rows.proba * ops.narrow(self.get(ops, "raw")) + p
        return {PROBABILITIES: p + ops.narrow(rows.uniform * self.get(ops, "uniform"))}
