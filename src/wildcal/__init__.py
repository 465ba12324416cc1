"""Calibrated confidence for classifiers, on clean data and when the world has shifted."""

from wildcal.calibrators import CALIBRATORS, EnergyScaling, Identity, TemperatureScaling
from wildcal.core.convert import logits_from_proba, softmax
from wildcal.evaluation import evaluate
from wildcal.io.artifact import load, save
from wildcal.version import __version__

__all__ = [
    "CALIBRATORS",
    "EnergyScaling",
    "Identity",
    "TemperatureScaling",
    "__version__",
    "evaluate",
    "load",
    "logits_from_proba",
    "save",
    "softmax",
]
