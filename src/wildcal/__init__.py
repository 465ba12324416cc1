"""Calibrated confidence for classifiers, on clean data and when the world has shifted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wildcal.calibrators import (
    CALIBRATORS,
    BayesianBinning,
    BetaCalibration,
    Context,
    ContextScaling,
    DensityAware,
    DirichletCalibration,
    EnergyLinear,
    EnergyScaling,
    EnsembleTemperatureScaling,
    EntropyTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicMultiClass,
    IsotonicOneVsAll,
    MatrixScaling,
    ParameterizedTemperatureScaling,
    ScaledIsotonicOneVsAll,
    SplineCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureMix,
    TemperatureScaling,
    TopLabelIsotonic,
    VectorScaling,
)
from wildcal.core.convert import logits_from_proba, softmax
from wildcal.evaluation import compare, evaluate
from wildcal.io.artifact import load, save
from wildcal.version import __version__

if TYPE_CHECKING:
    from wildcal.stream import Stream

__all__ = [
    "CALIBRATORS",
    "BayesianBinning",
    "BetaCalibration",
    "Context",
    "ContextScaling",
    "DensityAware",
    "DirichletCalibration",
    "EnergyLinear",
    "EnergyScaling",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "HistogramBinning",
    "Identity",
    "IsotonicMultiClass",
    "IsotonicOneVsAll",
    "MatrixScaling",
    "ParameterizedTemperatureScaling",
    "ScaledIsotonicOneVsAll",
    "SplineCalibration",
    "Stream",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureMix",
    "TemperatureScaling",
    "TopLabelIsotonic",
    "VectorScaling",
    "__version__",
    "compare",
    "evaluate",
    "load",
    "logits_from_proba",
    "plots",
    "save",
    "softmax",
    "suites",
]


def __getattr__(name: str) -> Any:
    """Import what is large when it is asked for, which keeps `import wildcal` short."""
    if name in ("plots", "suites"):
        return import_module(f"wildcal.{name}")
    if name == "Stream":
        return import_module("wildcal.stream").Stream
    raise AttributeError(f"module 'wildcal' has no attribute {name!r}")
