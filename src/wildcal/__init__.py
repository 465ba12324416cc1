"""Calibrated confidence for classifiers, on clean data and when the world has shifted."""

from wildcal.calibrators import CALIBRATORS, EnergyScaling, Identity, TemperatureScaling
from wildcal.version import __version__

__all__ = ["CALIBRATORS", "EnergyScaling", "Identity", "TemperatureScaling", "__version__"]
