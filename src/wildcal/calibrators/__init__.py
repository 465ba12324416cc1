"""The calibrators, one method per file, and the registry of their short names."""

from wildcal.calibrators.energy import EnergyScaling
from wildcal.calibrators.identity import Identity
from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.calibrator import Calibrator

CALIBRATORS: dict[str, type[Calibrator]] = {
    method.name: method for method in (Identity, TemperatureScaling, EnergyScaling)
}

__all__ = ["CALIBRATORS", "EnergyScaling", "Identity", "TemperatureScaling"]
