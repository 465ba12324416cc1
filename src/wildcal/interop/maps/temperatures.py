"""Maps that divide each row by a temperature."""

from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar

import numpy as np

from wildcal.calibrators import (
    EnergyLinear,
    EnergyScaling,
    EntropyTemperatureScaling,
    Identity,
    ParameterizedTemperatureScaling,
    TemperatureScaling,
)
from wildcal.calibrators.energy import MIN_TEMPERATURE
from wildcal.calibrators.entropy_temperature import SMALLEST_ENTROPY
from wildcal.calibrators.parameterized_temperature import FARTHEST, LARGEST_LOGIT
from wildcal.interop.maps.base import PROBABILITIES, TEMPERATURE, Inputs, Map, Outputs
from wildcal.interop.maps.ops import Ops, Tensor, clip
from wildcal.interop.maps.rows import Rows


class Scaling(Map):
    """p = softmax(z / T(x)); a method supplies T."""

    gives: ClassVar[tuple[str, ...]] = (TEMPERATURE,)

    def apply(self, rows: Rows, inputs: Inputs, wanted: Collection[str]) -> Outputs:
        """Return the probabilities and the temperature."""
        temperature = self.temperature(rows, inputs)
        return {PROBABILITIES: rows.softmax(1.0 / temperature), TEMPERATURE: temperature}

    @abstractmethod
    def temperature(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return T of each row in float64, (n, 1)."""

    def softplus(self, ops: Ops, eta: Tensor) -> Tensor:
        """Return softplus(eta) within the fitted bounds."""
        return clip(ops, ops.softplus(eta), self.get(ops, "low"), self.get(ops, "high"))


class Constant(Scaling):
    """One temperature for all rows: `ts` and `identity`."""

    def __init__(self, calibrator: TemperatureScaling | Identity, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        self.keep(temperature=getattr(calibrator, "temperature_", 1.0))

    def temperature(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return T."""
        # Added to zeros, one for each row.
        return rows.ops.wide(rows.top) * 0.0 + self.get(rows.ops, "temperature")


class Entropy(Scaling):
    """T = softplus(w log(H / log K) + b): `hts`."""

    def __init__(self, calibrator: EntropyTemperatureScaling, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        low, high = calibrator.bounds
        self.keep(weight=calibrator.weight_, bias=calibrator.bias_, low=low, high=high)

    def temperature(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return T."""
        ops = rows.ops
        share = ops.maximum(rows.entropy, SMALLEST_ENTROPY) / float(np.log(self.n_classes))
        return self.softplus(ops, ops.log(share) * self.get(ops, "weight") + self.get(ops, "bias"))


class Parameterized(Scaling):
    """T = softplus(network(the k largest logits)): `pts`."""

    def __init__(self, calibrator: ParameterizedTemperatureScaling, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        network = calibrator.network(calibrator.n_classes_)
        layers = network.layers(calibrator.weights_)
        low, high = calibrator.bounds
        self.keep(mean=calibrator.mean_, std=calibrator.std_, low=low, high=high)
        for i, layer in enumerate(layers):
            self.keep(**{f"weight_{i}": layer[:-1], f"bias_{i}": layer[-1]})

    def temperature(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return T."""
        ops = rows.ops
        mean = self.get(ops, "mean")
        top = ops.wide(ops.largest(rows.logits, ops.length(mean)))
        # -inf counts as the lowest finite one.
        lowest = ops.row_min(ops.where(ops.less(top, ops.lowest), np.inf, top))
        top = clip(ops, ops.maximum(top, lowest), -LARGEST_LOGIT, LARGEST_LOGIT)
        x = clip(ops, (top - mean) / self.get(ops, "std"), -FARTHEST, FARTHEST)
        for i in range(2):
            x = ops.tanh(self._layer(ops, x, i))
        return self.softplus(ops, self._layer(ops, x, 2))

    def _layer(self, ops: Ops, x: Tensor, i: int) -> Tensor:
        return ops.matmul(x, self.get(ops, f"weight_{i}")) + self.get(ops, f"bias_{i}")


class Energy(Scaling):
    """h = T - down * bump(F; correct) + up * bump(F; incorrect): `energy`."""

    def __init__(self, calibrator: EnergyScaling, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        (down, up), (correct, incorrect) = calibrator.terms()
        temperature = calibrator.temperature_
        self.keep(temperature=temperature, floor=min(MIN_TEMPERATURE, temperature))
        # A term that could not be fitted has height 0, wherever its density would lie.
        for name, height, density in (("correct", -down, correct), ("incorrect", up, incorrect)):
            mean, std = (density.mean, density.std) if density else (0.0, 1.0)
            self.keep(**{f"{name}_height": height, f"{name}_mean": mean, f"{name}_std": std})

    def temperature(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return h."""
        ops = rows.ops
        h = self.get(ops, "temperature")
        for name in ("correct", "incorrect"):
            off = (rows.energy - self.get(ops, f"{name}_mean")) / self.get(ops, f"{name}_std")
            h = ops.exp(off * off * -0.5) * self.get(ops, f"{name}_height") + h
        return ops.maximum(h, self.get(ops, "floor"))


class Linear(Scaling):
    """T = softplus(a + b F): `energy-linear`."""

    def __init__(self, calibrator: EnergyLinear, prefix: str = "") -> None:
        super().__init__(calibrator, prefix)
        low, high = calibrator.bounds
        self.keep(intercept=calibrator.intercept_, slope=calibrator.slope_, low=low, high=high)

    def temperature(self, rows: Rows, inputs: Inputs) -> Tensor:
        """Return T."""
        ops = rows.ops
        return self.softplus(ops, rows.energy * self.get(ops, "slope") + self.get(ops, "intercept"))
