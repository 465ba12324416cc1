"""Calibrated confidence for classifiers, on clean data and when the world has shifted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wildcal.calibrators import (
    CALIBRATORS,
    AutoCalibrator,
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
    make_calibrator,
)
from wildcal.core.calibrator import Calibrator, FitSummary, TemperatureMap
from wildcal.core.convert import logits_from_proba, logits_from_score, proba_floor, softmax
from wildcal.core.labels import ClassNames
from wildcal.core.logprobs import logits_from_logprobs
from wildcal.evaluation import choose_methods, compare, evaluate, evaluate_calibrator
from wildcal.io.artifact import load, save
from wildcal.io.tables import InputRows, as_rows, read_rows
from wildcal.version import __version__

if TYPE_CHECKING:  # what is large is imported when it is asked for
    from wildcal import metrics, plots, suites, window
    from wildcal.evaluation.protocol import run_protocol
    from wildcal.io.suite import Suite, SuiteWriter
    from wildcal.report import make_page
    from wildcal.stream import Stream

_MODULES = ("accuracy", "metrics", "plots", "suites", "window")
_ELSEWHERE = {
    "Stream": "wildcal.stream",
    "Suite": "wildcal.io.suite",
    "SuiteWriter": "wildcal.io.suite",
    "make_page": "wildcal.report",
    "run_protocol": "wildcal.evaluation.protocol",
}

__all__ = [
    "CALIBRATORS",
    "AutoCalibrator",
    "BayesianBinning",
    "BetaCalibration",
    "Calibrator",
    "ClassNames",
    "Context",
    "ContextScaling",
    "DensityAware",
    "DirichletCalibration",
    "EnergyLinear",
    "EnergyScaling",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "FitSummary",
    "HistogramBinning",
    "Identity",
    "InputRows",
    "IsotonicMultiClass",
    "IsotonicOneVsAll",
    "MatrixScaling",
    "ParameterizedTemperatureScaling",
    "ScaledIsotonicOneVsAll",
    "SplineCalibration",
    "Stream",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "Suite",
    "SuiteWriter",
    "TemperatureMap",
    "TemperatureMix",
    "TemperatureScaling",
    "TopLabelIsotonic",
    "VectorScaling",
    "__version__",
    "accuracy",
    "as_rows",
    "choose_methods",
    "compare",
    "evaluate",
    "evaluate_calibrator",
    "load",
    "logits_from_logprobs",
    "logits_from_proba",
    "logits_from_score",
    "make_calibrator",
    "make_page",
    "metrics",
    "plots",
    "proba_floor",
    "read_rows",
    "run_protocol",
    "save",
    "softmax",
    "suites",
    "window",
]


def __getattr__(name: str) -> Any:
    """Import what is large when it is asked for, which keeps `import wildcal` short."""
    if name in _MODULES:
        return import_module(f"wildcal.{name}")
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module 'wildcal' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not imported yet among them."""
    return sorted(__all__)
